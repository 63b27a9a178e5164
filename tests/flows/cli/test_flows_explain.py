"""The command `gramhouse explain`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.partition import CATALOGUE
from tests.operator import Cli
from tests.warehouse.days import ANNA, BEN, POSTS, STORIES, account, at, opened_days

Explain = Callable[..., list[dict[str, Any]]]

LONG = "the same beginning of a caption that is longer than a line of a terminal is wide, "
LINK = "https://photos.example/p/one/"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a warehouse in which items were changed, missed and removed."""
    folder = tmp_path_factory.mktemp("explain")
    one = {"id": "1", "permalink": LINK, "caption": LONG + "old", "like_count": 3, "published_at": at(-90).isoformat()}
    with opened_days(folder) as days:
        days.catalogue(0, [account()])
        days.scan(POSTS, 1, [one, {"id": "2"}, {"id": "3"}])
        story, old = {"id": "1", "caption": "a story"}, {"id": "4", "published_at": at(-90).isoformat()}
        for hour, stories in enumerate(([story, old], [story], [story, old]), 2):
            days.scan(STORIES, hour, stories)
        days.scan(POSTS, 24, [one | {"caption": LONG + "new", "like_count": 5}, {"id": "2"}])
        days.catalogue(25, [account(name="ann")])
        days.catalogue(26, [account()])
        days.scan(POSTS, 48, [one | {"caption": LONG + "new", "like_count": 5}])
        days.publish()
    return folder


@pytest.fixture
def explain(folder: Path, monkeypatch: pytest.MonkeyPatch, run_cli: Cli) -> Explain:
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(folder / "analytics.duckdb"))

    def explained(*arguments: str) -> list[dict[str, Any]]:
        code, out, err = run_cli("explain", *arguments, "--json")
        assert (code, err) == (0, "")
        found: list[dict[str, Any]] = json.loads(out)["found"]
        return found

    return explained


def test_an_item_is_explained_in_order_of_time(explain: Explain, run_cli: Cli) -> None:
    [found] = explain(LINK)
    assert [event["event"] for event in found["events"]] == [
        "received", "new", "counted", "received", "changed", "counted",
    ]  # fmt: skip
    assert all(event["correlation_id"] for event in found["events"] if event["event"] == "received")
    assert found["events"][4]["changes"] == {"caption": {"old": LONG + "old", "new": LONG + "new"}}
    assert found["events"][5]["changes"] == {"like_count": {"old": 3, "new": 5}}
    assert "payload" not in found["events"][0]
    out = run_cli("explain", LINK)[1]
    assert "caption: …minal is wide, old → …minal is wide, new" in out
    assert "Present: last seen" in out


def test_all_items_of_an_id_are_explained_with_raw_bytes(explain: Explain, run_cli: Cli) -> None:
    posts, stories = explain("1", "--raw")
    assert (posts["item"]["surface"], stories["item"]["surface"]) == ("posts", "stories")
    assert [json.loads(event["payload"])["caption"] for event in posts["events"] if "payload" in event] == [
        LONG + "old", LONG + "new",
    ]  # fmt: skip
    assert '"caption": "a story"' in run_cli("explain", "1", "--raw")[1]


def test_a_missed_and_a_removed_item_say_why(explain: Explain) -> None:
    [missed], [removed] = explain("2"), explain(" 3\r")
    assert missed["events"][-1]["event"] == "missed"
    assert missed["state"].startswith("Missing: not listed by the scan that ended 2026-03-03 02:01 UTC.")
    assert removed["events"][-1]["event"] == "removed"
    assert removed["state"] == (
        "Removed: not listed by two scans; the first is the scan that ended 2026-03-02 02:01 UTC. The row is kept."
    )


def test_what_a_return_or_a_rename_has_ended_is_explained(explain: Explain) -> None:
    [story], [account] = explain("4"), explain(ANNA)
    assert [event["event"] for event in story["events"]] == ["received", "new", "expired", "returned"]
    assert [(event["old"], event["new"]) for event in account["events"] if event["event"] == "renamed"] == [
        ("anna", "ann"), ("ann", "anna"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", [ANNA, ANNA.upper(), "anna", "@Anna ", "k3Xw9QbT5mZa"])
def test_an_account_is_explained_by_any_of_its_names(explain: Explain, run_cli: Cli, name: str) -> None:
    [found] = explain(name)
    assert found["account"]["account_id"] == ANNA
    assert [row["surface"] for row in found["surfaces"]] == ["posts", "stories"]
    assert found["events"][0]["event"] == "new"
    assert "anna, account " + ANNA in run_cli("explain", name)[1]


def test_what_is_not_there_is_one_line(explain: Explain, run_cli: Cli) -> None:  # noqa: ARG001
    code, _, err = run_cli("explain", "nobody")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "has no item or account 'nobody'. Fix: `gramhouse accounts`" in err
    assert "has no item or account 'ana'. Did you mean anna? Fix:" in run_cli("explain", "ana")[2]


def test_without_the_raw_store_the_rest_is_explained(explain: Explain, folder: Path, run_cli: Cli) -> None:  # noqa: ARG001
    raw = folder / "raw"
    raw.rename(folder / "elsewhere")
    try:
        code, out, err = run_cli("explain", LINK)
        assert (code, "received" in out, "Without the raw store" in err) == (0, False, True)
        assert "changed" in out
        assert run_cli("explain", LINK, "--raw")[0] == 1
    finally:
        (folder / "elsewhere").rename(raw)


@pytest.mark.parametrize("status", ["active", "token_expired"])
def test_of_a_removed_account_its_removal_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_cli: Cli, status: str
) -> None:
    with opened_days(tmp_path) as days:
        days.catalogue(0, [account(), account(BEN, name="ben")])
        days.scan(POSTS, 0, [{"id": "1"}, {"id": "2"}])
        days.scan(POSTS, 1, [{"id": "1"}])
        days.catalogue(24, [account(status=status), account(BEN, name="ben")])
        days.scan_twice(CATALOGUE, 48, [account(BEN, name="ben")])
        monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(days.publish()))
    removed = "2026-03-03 02:01 UTC"
    assert f"  removed since {removed}\n" in run_cli("explain", ANNA)[1]
    why = f"Its account left the catalogue {removed}."
    assert f"  Last seen 2026-03-01 03:01 UTC. {why}\n" in run_cli("explain", "1")[1]
    missing = run_cli("explain", "2")[1].splitlines()[1]
    assert missing.startswith("  Missing: not listed by the scan that ended 2026-03-01 03:01 UTC.")
    assert missing.endswith(why)


def test_an_account_that_one_list_missed_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_cli: Cli
) -> None:
    with opened_days(tmp_path) as days:
        days.catalogue(0, [account(), account(BEN, name="ben")])
        days.catalogue(24, [account(BEN, name="ben")])
        monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(days.publish()))
    assert "  active; missing from the account list since 2026-03-02 02:01 UTC\n" in run_cli("explain", ANNA)[1]

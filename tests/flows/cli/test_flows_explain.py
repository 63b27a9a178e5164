"""The command `gramhouse explain`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.operator import Cli
from tests.warehouse.days import ANNA, POSTS, STORIES, account, at, opened_days

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
    return lambda *arguments: list(run_cli("explain", *arguments, "--json").json()["found"])


def test_an_item_is_explained_in_order_of_time(explain: Explain, run_cli: Cli) -> None:
    [found] = explain(LINK, "--raw")
    received, _, _, again, changed, counted = found["events"]
    assert [event["event"] for event in found["events"]] == [
        "received", "new", "counted", "received", "changed", "counted",
    ]  # fmt: skip
    assert received["correlation_id"]
    assert again["correlation_id"]
    assert changed["changes"] == {"caption": {"old": LONG + "old", "new": LONG + "new"}}
    assert counted["changes"] == {"like_count": {"old": 3, "new": 5}}
    out = run_cli("explain", LINK).stdout
    assert "caption: …minal is wide, old → …minal is wide, new" in out
    assert "Present: last seen" in out
    assert [json.loads(each["payload"])["caption"] for each in (received, again)] == [LONG + "old", LONG + "new"]
    # All items of an id, and with the bytes.
    assert [each["item"]["surface"] for each in explain("1")] == ["posts", "stories"]
    assert '"caption": "a story"' in run_cli("explain", "1", "--raw").stdout


def test_what_was_missed_removed_returned_or_renamed_says_why(explain: Explain) -> None:
    [missed], [removed], [story], [renamed] = explain("2"), explain(" 3\r"), explain("4"), explain(ANNA)
    assert missed["events"][-1]["event"] == "missed"
    by = "not listed by the scan that ended"
    assert missed["state"] == f"Missing: last seen 2026-03-02 02:01 UTC; {by} 2026-03-03 02:01 UTC."
    assert removed["events"][-1]["event"] == "removed"
    assert removed["state"] == f"Removed: last seen 2026-03-01 03:01 UTC; {by} 2026-03-02 02:01 UTC."
    assert [event["event"] for event in story["events"]] == ["new", "expired", "returned"]
    names = [(event["old"], event["new"]) for event in renamed["events"] if event["event"] == "renamed"]
    assert names == [("anna", "ann"), ("ann", "anna")]


def test_an_account_is_explained_by_any_of_its_names(explain: Explain, run_cli: Cli) -> None:
    for name in (ANNA.upper(), "@Anna ", "k3Xw9QbT5mZa"):
        [found] = explain(name)
        assert (found["account"]["account_id"], found["events"][0]["event"]) == (ANNA, "new")
        assert [row["surface"] for row in found["surfaces"]] == ["posts", "stories"]
    assert "anna, account " + ANNA in run_cli("explain", "anna").stdout


@pytest.mark.usefixtures("explain")
def test_what_is_not_there_is_one_line(folder: Path, run_cli: Cli) -> None:
    code, _, err = run_cli("explain", "nobody")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "There is no account 'nobody' in the warehouse. Fix: `gramhouse accounts`" in err
    assert "Did you mean anna? Fix:" in run_cli("explain", "ana").stderr
    # Without the raw store the rest is explained.
    (folder / "raw").rename(folder / "elsewhere")
    try:
        assert run_cli("explain", LINK).code == 0
        assert run_cli("explain", LINK, "--raw").code == 1
    finally:
        (folder / "elsewhere").rename(folder / "raw")

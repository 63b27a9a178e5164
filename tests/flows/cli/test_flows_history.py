"""The commands `gramhouse changes` and `gramhouse explain`."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.cli.commands import history as module
from flows.cli.options import since_time
from flows.config.errors import SettingsError
from models.feeds import CATALOGUE, Partition, media
from models.runs import RunState
from tests.clocks import VirtualClock
from tests.operator import ROOT, Cli
from tests.warehouse.rig import ANNA, BEN, POSTS, STORIES, Item, Rig, account, ask, at, opened

Find = Callable[..., Any]

ONE: Item = {"id": "1", "caption": "one", "like_count": 1, "permalink": "https://p.example/1/"}
TWO: Item = {"id": "2", "like_count": 1, "children": [{"id": "c"}]}
LONG = "the same beginning of a caption that is longer than a line of a terminal is wide, "
LINK = "https://photos.example/p/one/"


def run(rig: Rig, hour: float, *scanned: tuple[Partition, list[Item]], **ended: Any) -> None:  # noqa: ANN401 - as Rig.run
    rig.run(f"run-{hour}", hour, {}, *((partition, hour, items) for partition, items in scanned), **ended)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with opened(tmp_path_factory.mktemp("changes")) as rig:
        run(rig, 0, (CATALOGUE, [account(), account(BEN, name="ben")]), (POSTS, [ONE, TWO, {"id": "3"}]))
        run(rig, 24, (POSTS, [ONE | {"caption": "two", "like_count": 2}, TWO | {"like_count": 5}, {"id": "3"}]))
        run(rig, 48, (CATALOGUE, [account(name="ann"), account(BEN, name="ben")]), (media(BEN, "posts"), [ONE]),
            (POSTS, [ONE | {"caption": "three"}, TWO | {"like_count": 5, "children": []}]))  # fmt: skip
        return rig.publish(hour=49)


@pytest.fixture
def found(snapshot: Path, monkeypatch: pytest.MonkeyPatch, run_cli: Cli) -> Find:
    """A function that returns the JSON of `gramhouse changes`."""
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(snapshot))
    monkeypatch.setattr(module, "SystemClock", lambda: VirtualClock(at(50)))
    return lambda *arguments: run_cli("changes", "--json", *arguments).json()


def test_unfinished_runs_come_with_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_cli: Cli) -> None:
    def listed() -> list[tuple[int, str]]:
        rig.publish(tmp_path / "s.duckdb")
        return [(each["run_seq"], each["media_id"]) for each in run_cli("changes", "--json").json()["changes"]]

    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(tmp_path / "s.duckdb"))
    analyst = (ROOT / "docs/analyst.md").read_text("utf-8")
    [query] = re.findall(r"SELECT ig_username, surface, media_id, change, columns[^`]*", analyst)
    changed: Item = ONE | {"caption": "changed"}
    with opened(tmp_path) as rig:
        run(rig, 0, (CATALOGUE, [account()]), (POSTS, [ONE, TWO]), state=RunState.INTERRUPTED)
        assert listed() == [(1, "1"), (1, "2")]
        # One that was killed, and one that recorded its end.
        run(rig, 48, (POSTS, [changed, TWO, {"id": "4"}]), state=None)
        run(rig, 72, state=RunState.INTERRUPTED)
        run(rig, 96, state=RunState.PARTIAL)
        assert listed() == [(2, "1"), (2, "4"), (1, "1"), (1, "2")]
        assert ask(tmp_path / "s.duckdb", query)[0][2:5] == ("1", "changed", ["caption"])
        assert run_cli("changes")[1].startswith("Run 1 to 4 (began 2026-03-01 02:00 UTC): 1 changed, 3 new\n")
        run(rig, 120)
        assert listed() == []
        assert run_cli("changes")[1] == "Run 5 (began 2026-03-06 02:00 UTC): no changes of items\n"
        # One that ended but was not published is resumed by the next one, which finds nothing more.
        run(rig, 144, (POSTS, [ONE, TWO, {"id": "4"}]), published=False)
        run(rig, 145)
        assert listed() == [(6, "1")]


def test_old_and_new_values_are_side_by_side(found: Find, run_cli: Cli) -> None:
    since = found("--since-run", "2", "--values", "--account", "ann")
    assert [(each["run_seq"], each["media_id"], each["change"], each["values"]) for each in since["changes"]] == [
        (3, "1", "changed", {"caption": {"old": "two", "new": "three"}, "like_count": {"old": 2, "new": 1}}),
        (3, "2", "changed", {"children": {"old": '[{"id":"c"}]', "new": None}}),
        (2, "1", "changed", {"caption": {"old": "one", "new": "two"}, "like_count": {"old": 1, "new": 2}}),
        (2, "2", "counted", {"like_count": {"old": 1, "new": 5}}),
    ]  # fmt: skip
    assert [run["seq"] for run in since["runs"]] == [3, 2]
    out = run_cli("changes", "--since-run", "2", "--values").stdout
    assert "posts 1  caption: one → two, like_count: 1 → 2\n" in out
    assert "posts 2  like_count: 1 → 5\n" in out


def test_runs_are_selected_and_the_list_is_limited(found: Find, run_cli: Cli) -> None:
    for since, runs in (("26h", [3, 2]), ("1d", [3]), ("60m", []), ("2026-03-01", [3, 2, 1])):
        assert [run["seq"] for run in found("--since", since)["runs"]] == runs
    assert run_cli("changes", "--since", "60m") == (0, "No such run: `gramhouse runs` lists the last ones.\n", "")
    assert since_time("--since", " 2026-03-01T04:00:00+02:00", at(0)) == at(0)
    # DuckDB reads no fraction of a second in a time zone.
    assert found("--since", "2026-03-02T00:00:00+05:30:15.123456")["runs"]
    for wrong in ("2", "2x", "999999999w", "yesterday", "", "1772323200", "0001-01-01T00:00:00+05:00"):
        with pytest.raises(SettingsError, match=r"^--since '.*' is not a time"):
            since_time("--since", wrong, at(0))
    limited = run_cli("changes", "--since-run", "1", "--limit", "2").stdout
    assert limited.endswith("The first 2 of 8 changes of items. List all with `--limit 8`.\n")
    assert len(found("--since-run", "1")["changes"]) == 8
    for arguments, message in (
        (["--since-run", "1", "--since", "2d"], "--since-run and --since exclude each other. Fix:"),
        (["--account", "annn"], "There is no account 'annn' in the warehouse. Did you mean ann? Fix:"),
        (["--since-run", "9"], "There is no run 9 or later. Fix: `gramhouse runs`"),
    ):
        done = run_cli("changes", *arguments)
        assert (done.code, done.stdout, message in done.stderr) == (2, "", True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a warehouse in which items were changed, missed and removed."""
    folder = tmp_path_factory.mktemp("explain")
    one = {"id": "1", "permalink": LINK, "caption": LONG + "old", "like_count": 3, "published_at": at(-90).isoformat()}
    with opened(folder) as rig:
        rig.scan(CATALOGUE, 0, [account()])
        rig.scan(POSTS, 1, [one, {"id": "2"}, {"id": "3"}])
        story, old = {"id": "1", "caption": "a story"}, {"id": "4", "published_at": at(-90).isoformat()}
        for hour, stories in enumerate(([story, old], [story], [story, old]), 2):
            rig.scan(STORIES, hour, stories)
        rig.scan(POSTS, 24, [one | {"caption": LONG + "new", "like_count": 5}, {"id": "2"}])
        rig.scan(CATALOGUE, 25, [account(name="ann")])
        rig.scan(CATALOGUE, 26, [account()])
        rig.scan(POSTS, 48, [one | {"caption": LONG + "new", "like_count": 5}])
        rig.publish()
    return folder


@pytest.fixture
def explain(folder: Path, monkeypatch: pytest.MonkeyPatch, run_cli: Cli) -> Find:
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(folder / "analytics.duckdb"))
    return lambda *arguments: run_cli("explain", *arguments, "--json").json()["found"]


def test_an_item_is_explained_in_order_of_time(explain: Find, run_cli: Cli) -> None:
    [found] = explain(LINK, "--raw")
    received, _, _, again, changed, counted = found["events"]
    assert [event["event"] for event in found["events"]] == [
        "received", "new", "counted", "received", "changed", "counted",
    ]  # fmt: skip
    assert received["correlation_id"]
    assert changed["changes"] == {"caption": {"old": LONG + "old", "new": LONG + "new"}}
    assert counted["changes"] == {"like_count": {"old": 3, "new": 5}}
    out = run_cli("explain", LINK).stdout
    assert "caption: …minal is wide, old → …minal is wide, new" in out
    assert "Present: last seen" in out
    assert [json.loads(each["payload"])["caption"] for each in (received, again)] == [LONG + "old", LONG + "new"]
    # All items of an id, and with the bytes.
    assert [each["item"]["surface"] for each in explain("1")] == ["posts", "stories"]
    assert '"caption": "a story"' in run_cli("explain", "1", "--raw").stdout


def test_what_was_missed_removed_returned_or_renamed_says_why(explain: Find) -> None:
    [missed], [removed], [story], [renamed] = explain("2"), explain(" 3\r"), explain("4"), explain(ANNA)
    by = "not listed by the scan that ended"
    assert missed["state"] == f"Missing: last seen 2026-03-02 02:01 UTC; {by} 2026-03-03 02:01 UTC."
    assert removed["state"] == f"Removed: last seen 2026-03-01 03:01 UTC; {by} 2026-03-02 02:01 UTC."
    assert [each["events"][-1]["event"] for each in (missed, removed)] == ["missed", "removed"]
    assert [event["event"] for event in story["events"]] == ["new", "expired", "returned"]
    names = [(event["old"], event["new"]) for event in renamed["events"] if event["event"] == "renamed"]
    assert names == [("anna", "ann"), ("ann", "anna")]


def test_an_account_is_explained_by_any_of_its_names(explain: Find, run_cli: Cli) -> None:
    for name in (ANNA.upper(), "@Anna ", "k3Xw9QbT5mZa"):
        [found] = explain(name)
        assert (found["account"]["account_id"], found["events"][0]["event"]) == (ANNA, "new")
        assert [row["surface"] for row in found["surfaces"]] == ["posts", "stories"]
    assert "anna, account " + ANNA in run_cli("explain", "anna").stdout


@pytest.mark.usefixtures("explain")
def test_what_is_not_there_is_one_line(folder: Path, run_cli: Cli) -> None:
    code, _, err = run_cli("explain", "nobody")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "There is no item or account 'nobody' in the warehouse. Fix: `gramhouse accounts`" in err
    # Without the raw store the rest is explained.
    (folder / "raw").rename(folder / "elsewhere")
    try:
        assert run_cli("explain", LINK).code == 0
        assert run_cli("explain", LINK, "--raw").code == 1
    finally:
        (folder / "elsewhere").rename(folder / "raw")

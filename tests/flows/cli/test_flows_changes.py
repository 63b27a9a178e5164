"""The command `gramhouse changes`."""

import re
from pathlib import Path
from typing import Any

import pytest

from flows.cli.commands import history as module
from flows.cli.options import since_time
from flows.config.errors import SettingsError
from models.feeds import CATALOGUE, Partition, media
from models.runs import RunState
from tests.clocks import VirtualClock
from tests.operator import Cli
from tests.warehouse.days import BEN, POSTS, Days, Item, account, ask, at, opened_days

ONE: Item = {"id": "1", "caption": "one", "like_count": 1, "permalink": "https://p.example/1/"}
TWO: Item = {"id": "2", "like_count": 1, "children": [{"id": "c"}]}

ANALYST = Path(__file__).parents[3] / "docs/analyst.md"


def run(
    days: Days,
    hour: float,
    *scanned: tuple[Partition, list[Item]],
    state: RunState | None = RunState.COMPLETE,
    published: bool = True,
) -> None:
    scans = [(partition, hour, items) for partition, items in scanned]
    days.run(f"run-{hour}", hour, {}, *scans, state=state, published=published)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with opened_days(tmp_path_factory.mktemp("changes")) as days:
        run(days, 0, (CATALOGUE, [account(), account(BEN, name="ben")]), (POSTS, [ONE, TWO, {"id": "3"}]))
        run(days, 24, (POSTS, [ONE | {"caption": "two", "like_count": 2}, TWO | {"like_count": 5}, {"id": "3"}]))
        run(days, 48, (CATALOGUE, [account(name="ann"), account(BEN, name="ben")]), (media(BEN, "posts"), [ONE]),
            (POSTS, [ONE | {"caption": "three"}, TWO | {"like_count": 5, "children": []}]))  # fmt: skip
        return days.publish(hour=49)


@pytest.fixture
def changes(snapshot: Path, monkeypatch: pytest.MonkeyPatch, run_cli: Cli) -> Cli:
    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(snapshot))
    monkeypatch.setattr(module, "SystemClock", lambda: VirtualClock(at(50)))
    return run_cli


def found(changes: Cli, *arguments: str) -> dict[str, Any]:
    return dict(changes("changes", "--json", *arguments).json())


def test_unfinished_runs_before_the_last_one_are_listed_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_cli: Cli
) -> None:
    def listed() -> list[tuple[int, str]]:
        days.publish(tmp_path / "s.duckdb")
        return [(each["run_seq"], each["media_id"]) for each in found(run_cli)["changes"]]

    monkeypatch.setenv("GRAMHOUSE_SNAPSHOT", str(tmp_path / "s.duckdb"))
    # As docs/analyst.md has it.
    [query] = re.findall(r"SELECT ig_username, surface, media_id, change, columns[^`]*", ANALYST.read_text("utf-8"))
    changed: Item = ONE | {"caption": "changed"}
    with opened_days(tmp_path) as days:
        run(days, 0, (CATALOGUE, [account()]), (POSTS, [ONE, TWO]), state=RunState.INTERRUPTED)
        assert listed() == [(1, "1"), (1, "2")]
        # One that was killed, and one that recorded its end.
        run(days, 48, (POSTS, [changed, TWO, {"id": "4"}]), state=None)
        run(days, 72, state=RunState.INTERRUPTED)
        run(days, 96, state=RunState.PARTIAL)
        assert listed() == [(2, "1"), (2, "4"), (1, "1"), (1, "2")]
        assert ask(tmp_path / "s.duckdb", query)[0][2:5] == ("1", "changed", ["caption"])
        assert run_cli("changes")[1].startswith("Run 1 to 4 (began 2026-03-01 02:00 UTC): 1 changed, 3 new\n")
        run(days, 120)
        assert listed() == []
        assert run_cli("changes")[1] == "Run 5 (began 2026-03-06 02:00 UTC): no changes of items\n"
        # One that ended but was not published is resumed by the next one, which finds nothing more.
        run(days, 144, (POSTS, [ONE, TWO, {"id": "4"}]), published=False)
        run(days, 145)
        assert listed() == [(6, "1")]


def test_old_and_new_values_are_side_by_side(changes: Cli) -> None:
    since = found(changes, "--since-run", "2", "--values", "--account", "ann")
    assert [(each["run_seq"], each["media_id"], each["change"], each["values"]) for each in since["changes"]] == [
        (3, "1", "changed", {"caption": {"old": "two", "new": "three"}, "like_count": {"old": 2, "new": 1}}),
        (3, "2", "changed", {"children": {"old": '[{"id":"c"}]', "new": None}}),
        (2, "1", "changed", {"caption": {"old": "one", "new": "two"}, "like_count": {"old": 1, "new": 2}}),
        (2, "2", "counted", {"like_count": {"old": 1, "new": 5}}),
    ]  # fmt: skip
    assert [run["seq"] for run in since["runs"]] == [3, 2]
    out = changes("changes", "--since-run", "2", "--values").stdout
    assert "posts 1  caption: one → two, like_count: 1 → 2\n" in out
    assert "posts 2  like_count: 1 → 5\n" in out


def test_runs_are_selected_and_the_list_is_limited(changes: Cli) -> None:
    for since, runs in (("26h", [3, 2]), ("1d", [3]), ("60m", []), ("2026-03-01", [3, 2, 1])):
        assert [run["seq"] for run in found(changes, "--since", since)["runs"]] == runs
    assert changes("changes", "--since", "60m") == (0, "No such run: `gramhouse runs` lists the last ones.\n", "")
    assert since_time("--since", " 2026-03-01T04:00:00+02:00", at(0)) == at(0)
    # DuckDB reads no fraction of a second in a time zone.
    assert found(changes, "--since", "2026-03-02T00:00:00+05:30:15.123456")["runs"]
    for wrong in ("2", "2x", "999999999w", "yesterday", "", "1772323200", "0001-01-01T00:00:00+05:00"):
        with pytest.raises(SettingsError, match=r"^--since '.*' is not a time"):
            since_time("--since", wrong, at(0))
    limited = changes("changes", "--since-run", "1", "--limit", "2").stdout
    assert limited.endswith("The first 2 of 8 changes of items. List all with `--limit 8`.\n")
    assert len(found(changes, "--since-run", "1")["changes"]) == 8
    for arguments, message in (
        (["--since-run", "1", "--since", "2d"], "--since-run and --since exclude each other. Fix:"),
        (["--account", "annn"], "There is no account 'annn' in the warehouse. Did you mean ann? Fix:"),
        (["--since-run", "0"], "--since-run"),
    ):
        done = changes("changes", *arguments)
        assert (done.code, done.stdout, message in done.stderr) == (2, "", True)

"""Runs, other commands, starts that failed, forgotten accounts, operations, and which files belong together."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from connectors.state.database import State, open_state
from connectors.state.identity import (
    begin_operation,
    bind_service,
    end_operation,
    move_times,
    read_identity,
    read_operations,
)
from connectors.state.inbox import land, read_cooldowns
from connectors.state.runs import (
    add_failed_start,
    begin_command,
    begin_run,
    end_run,
    last_command,
    read_runs,
)
from models.checkpoint import ScopeCooldown
from models.files import Ahead, Identity, find_mismatch
from models.runs import RunState

NOW = datetime(2026, 3, 1, 6, 15, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with open_state(tmp_path / "state.sqlite") as state:
        yield state


def begin(state: State, run_id: str, kind: str = "sync", *, at: datetime = NOW, **texts: str | None) -> tuple[str, ...]:
    return state.write(begin_run, run_id, kind, pid=7, now=at, within=DAY, version="2", **texts)


def last(state: State) -> tuple[object, ...] | None:
    row = state.read(last_command)
    return None if row is None else tuple(row[name] for name in ("kind", "run_id", "state"))


def test_runs_of_another_service_or_selection_are_not_resumed(state: State) -> None:
    begin(state, "1", base_url="https://a")
    assert begin(state, "2", base_url="https://b") == ()
    assert begin(state, "3", base_url="https://a", selection="stories") == ()
    assert begin(state, "4", base_url="https://a") == ("1",)
    assert begin(state, "6", "backfill", base_url="https://a") == ()
    assert begin(state, "5", base_url="https://a", at=NOW + 2 * DAY) == ()


# The earlier runs, newest first: id, the hours since each began, how it ended, what it resumed; and what is resumed.
@pytest.mark.parametrize(
    ("earlier", "resumed"),
    [
        ("c 1 interrupted b, b 2 interrupted a, a 3 interrupted -", "cba"),
        ("c 1 interrupted b, b 25 interrupted -", "c"),
        ("c 1 interrupted b, b 2 published a, a 3 interrupted -", "c"),
        ("b 1 published a, a 2 interrupted -", ""),
        # A snapshot was published after the interruption.
        ("b 1 killed a, a 2 interrupted -", "ba"),
        ("b 1 complete a, a 2 interrupted -", "ba"),
        ("b 1 interrupted forgotten", "b"),
        ("b 1 interrupted a, a 24 interrupted -", "ba"),
        ("b 1 interrupted a, a 24.01 interrupted -", "b"),
        ("b -1 interrupted -", ""),
    ],
)
def test_a_run_resumes_the_chain_of_unfinished_runs(state: State, earlier: str, resumed: str) -> None:
    for run in reversed(earlier.split(", ")):
        run_id, hours, ended, resumes = run.split()
        at = NOW - timedelta(hours=float(hours))
        begin(state, run_id, at=at)
        run_state = RunState.INTERRUPTED if ended in ("interrupted", "killed") else RunState.COMPLETE
        published_at = NOW if ended in ("published", "killed") else None
        state.write(end_run, run_id, run_state, now=at, resumes=resumes, published_at=published_at)
    assert begin(state, "new") == tuple(resumed)


def test_the_last_command_is_a_failed_start_until_a_run_begins(state: State) -> None:
    assert last(state) is None
    state.write(begin_command, "publish", pid=1, now=NOW)
    assert last(state) == ("publish", None, "running")
    state.write(end_run, None, RunState.COMPLETE, now=NOW)
    state.write(add_failed_start, "sync", pid=2, since=NOW, now=NOW, detail="no key")
    state.write(add_failed_start, "sync", pid=3, since=NOW, now=NOW, detail="still none")
    assert last(state) == ("sync", None, "failed")
    state.write(begin_command, "compact", pid=1, now=NOW)
    assert last(state) == ("sync", None, "failed")
    begin(state, "1")
    assert last(state) is None
    state.write(begin_command, "compact", pid=1, now=NOW)
    assert last(state) == ("compact", None, "running")
    assert [row["state"] for row in state.read(read_runs)] == ["interrupted"]


def test_an_operation_is_a_row_until_it_is_done(state: State) -> None:
    assert state.write(begin_operation, "rebuild", now=NOW) == 1
    assert state.write(begin_operation, "forget", '{"a": 1}', now=NOW) == 2
    assert state.write(begin_operation, "forget", '{"a": 2}', now=NOW) == 3
    assert state.read(read_operations) == {"rebuild": "{}", "forget": '{"a": 2}'}
    state.write(end_operation, "forget")
    assert state.read(read_operations) == {"rebuild": "{}"}
    assert state.read(read_identity).seq == 3


def test_another_service_gets_no_cursor_and_no_wait_of_the_one_before(state: State) -> None:
    wait = ScopeCooldown("media:a", NOW + DAY, NOW)
    state.write(land, [wait])
    for address in ("https://a", "https://a", "https://b"):
        assert state.read(read_cooldowns, now=NOW) == {"media:a": NOW + DAY}
        state.write(bind_service, address)
    assert state.read(read_identity).base_url == "https://b"
    assert state.read(read_cooldowns, now=NOW) == {}


def test_times_of_a_clock_that_was_ahead_are_moved_to_now(state: State) -> None:
    ahead = NOW + 400 * DAY
    begin(state, "1", at=ahead)
    state.write(land, [ScopeCooldown("media:a", ahead + timedelta(hours=1), ahead)])
    assert state.write(move_times, now=NOW) == Ahead(2, ahead)
    assert state.read(read_runs)[0]["started_at"] == NOW
    assert state.read(read_cooldowns, now=NOW) == {"media:a": NOW + timedelta(hours=1)}


@pytest.mark.parametrize(
    ("state", "warehouse", "wrong"),
    [
        (Identity("", 0), Identity("", 0), None),
        (Identity("b", 5), Identity("b", 5), None),
        (Identity("b", 5), Identity("b", 3), None),
        # Killed between the two tokens, the first time and later.
        (Identity("", 0), Identity("a", 0, ""), None),
        (Identity("a", 5), Identity("b", 5, "a"), None),
        # One of them is older.
        (Identity("a", 5), Identity("b", 5), "do not belong together"),
        (Identity("b", 5), Identity("a", 5), "do not belong together"),
        (Identity("b", 4), Identity("b", 5), "do not belong together"),
        # One of them is missing.
        (Identity("", 0), Identity("b", 5), "{state} is missing"),
        (Identity("b", 5), Identity("", 0), "{warehouse} is missing"),
    ],
)
def test_which_files_belong_together(state: Identity, warehouse: Identity, wrong: str | None) -> None:
    found = find_mismatch(state, warehouse)
    assert (found is None) if wrong is None else (found is not None and wrong in found and "Fix: " in found)

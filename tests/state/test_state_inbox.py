"""Landing: one transaction for all that arrived, read in order, deleted by number, visible to readers at once."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from connectors.state.database import State, open_state, open_state_read_only
from connectors.state.identity import read_identity
from connectors.state.inbox import (
    count_landings,
    delete_landings,
    land,
    read_checkpoints,
    read_cooldowns,
    read_landings,
)
from connectors.state.runs import begin_run
from models.checkpoint import Checkpoint, Landing, ScanState, ScopeCooldown
from models.feeds import CATALOGUE, Partition, media
from models.runs import Outcome, OutcomeKind

NOW = datetime(2026, 3, 1, 6, 15, 0, 123456, tzinfo=UTC)
POSTS = media("a", "posts")
DAY = timedelta(days=1)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with open_state(tmp_path / "state.sqlite") as state:
        state.write(begin_run, "run", "sync", pid=1, now=NOW, within=DAY, version="2", base_url="https://run")
        yield state


def landings(state: State, after: int) -> list[Landing]:
    return state.read(lambda connection: [*read_landings(connection, after)])


BODY = b'{"items": [], "n": %d, "\xc3\xa9": "\\u00e9"}'


def commit(number: int = 1, partition: Partition = POSTS, scan: str = "scan", **checkpoint: Any) -> Landing:  # noqa: ANN401
    at = Checkpoint(partition, scan, "run", NOW, NOW, f"cursor {number}", number, 50 * number)
    return Landing(partition, "run", scan, number, NOW, "c-1", BODY % number, replace(at, **checkpoint))


def test_what_landed_is_read_in_order_as_it_came(state: State) -> None:
    outcome = Outcome(POSTS, "run", OutcomeKind.COMPLETE, NOW, NOW, 1, 2, detail="x")
    assert state.write(land, [commit(1), commit(2), Landing(POSTS, "run", outcomes=(outcome,))]) == 3
    assert state.write(land, [commit(3)]) == 4
    first, second, third, fourth = landings(state, 0)
    assert [first.seq, second.seq, third.seq, fourth.seq] == [1, 2, 3, 4]
    assert first.body == BODY % 1
    assert (first.run_seq, first.run_id, first.partition, first.scan_id) == (1, "run", POSTS, "scan")
    assert (second.page, second.began_seq, second.received_at, second.correlation_id) == (2, 1, NOW, "c-1")
    assert (third.outcomes, third.page, third.body) == ((outcome,), 0, b"")
    assert [one.seq for one in landings(state, 3)] == [4]
    state.write(delete_landings, 3)
    assert [one.seq for one in landings(state, 0)] == [4]


def test_a_checkpoint_has_the_landing_of_its_scans_first_page(state: State) -> None:
    state.write(land, [commit(1, CATALOGUE, "other"), commit(1)])
    done = commit(2, CATALOGUE, "other", state=ScanState.COMPLETE, cursor=None)
    state.write(land, [commit(2, repeated_pages=3, empty_pages=4), done])
    found = state.read(read_checkpoints, ["a", "", "unknown"])
    assert found[POSTS] == Checkpoint(
        POSTS, "scan", "run", NOW, NOW, "cursor 2", 2, 100, began_seq=2, repeated_pages=3, empty_pages=4
    )
    assert found[CATALOGUE].began_seq == 1
    assert found[CATALOGUE].state is ScanState.COMPLETE
    assert [(one.began_seq, one.end is not None) for one in landings(state, 0)] == [
        (1, False), (2, False), (2, False), (1, True),
    ]  # fmt: skip
    # Resumed by another process, from the checkpoint as it was read.
    resumed = replace(commit(3), checkpoint=replace(found[POSTS], pages=3))
    state.write(land, [resumed])
    assert state.read(read_checkpoints, ["a"])[POSTS].began_seq == 2


def test_each_kind_of_run_has_its_own_checkpoints(state: State) -> None:
    state.write(land, [commit(1), commit(1, scan="backfill scan", run_kind="backfill", had_expired_token=True)])
    assert state.read(read_checkpoints, ["a"])[POSTS].scan_id == "scan"
    of_backfill = state.read(read_checkpoints, ["a"], "backfill")[POSTS]
    assert (of_backfill.scan_id, of_backfill.had_expired_token) == ("backfill scan", True)


def test_a_cooldown_lands_without_a_number(state: State) -> None:
    until = NOW + timedelta(hours=1)
    for hours in (0.5, 1, 0.2):
        state.write(land, [ScopeCooldown("media:a", NOW + timedelta(hours=hours), NOW)])
    assert state.read(read_cooldowns, now=NOW) == {"media:a": until}
    assert state.read(read_cooldowns, now=until) == {}
    assert state.read(read_identity).seq == 0


def test_the_last_number_never_falls(state: State) -> None:
    state.write(land, [commit(1), commit(2)])
    state.write(delete_landings, 2)
    assert state.write(count_landings, 3) == 2
    assert state.write(land, [commit(3)]) == 6


def test_the_first_page_binds_the_state_to_the_service_of_its_run(state: State) -> None:
    state.write(begin_run, "later", "sync", pid=1, now=NOW, within=DAY, version="2", base_url="https://later")
    assert state.read(read_identity).base_url is None
    state.write(land, [commit(1)])
    assert state.read(read_identity).base_url == "https://run"


def test_nothing_lands_of_a_batch_that_cannot_be_stored(state: State) -> None:
    with pytest.raises(UnicodeEncodeError):
        state.write(land, [commit(1), replace(commit(2), correlation_id="\ud800")])
    assert landings(state, 0) == []
    assert state.read(read_identity).seq == 0
    assert state.read(read_checkpoints, ["a"]) == {}


def test_readers_do_not_wait_for_a_transaction_that_writes(state: State) -> None:
    state.write(land, [commit(1)])
    with open_state_read_only(state.path) as reader, state.engine.begin() as writing:
        writing.exec_driver_sql("DELETE FROM inbox")
        assert reader is not None
        assert [one.seq for one in landings(reader, 0)] == [1]

"""Log entries in the shared store: each is merged once, in order, and none after the last."""

from collections.abc import Iterator

import pytest

from connectors.warehouse.runs.batch_logs import (
    LogEntry,
    MergedLog,
    close_run,
    enter_run,
    last_run_sequence,
    merged_logs,
    new_entries,
    open_run_sequences,
)
from connectors.warehouse.storage.connection import Connection
from tests.warehouse.rig import Rig


@pytest.fixture
def connection(rig: Rig) -> Iterator[Connection]:
    with rig.connection.begin():
        yield rig.connection


def entry(number: int, *, batch: int = 1, run: int = 7, last: bool = False) -> LogEntry:
    return LogEntry(run, batch, number, (), last=last)


def test_an_entry_is_merged_once(connection: Connection) -> None:
    first, second = entry(1), entry(2)
    assert new_entries(connection, [first, second]) == [first, second]
    assert new_entries(connection, [first, second, entry(3)]) == [entry(3)]
    assert new_entries(connection, [entry(3), entry(3)]) == []
    assert merged_logs(connection, 7) == {1: MergedLog(3)}


def test_an_entry_that_comes_twice_at_once_is_merged_once(connection: Connection) -> None:
    assert new_entries(connection, [entry(1), entry(1), entry(2)]) == [entry(1), entry(2)]


def test_logs_of_batches_and_runs_are_counted_separately(connection: Connection) -> None:
    several = [entry(1), entry(1, batch=2), entry(1, run=8), entry(2, batch=2, last=True)]
    assert sorted(new_entries(connection, several), key=repr) == sorted(several, key=repr)
    assert merged_logs(connection, 7) == {1: MergedLog(1), 2: MergedLog(2, is_closed=True)}
    assert merged_logs(connection, 8) == {1: MergedLog(1)}


@pytest.mark.parametrize("merged", [[], [1], [1, 2]])
def test_a_gap_is_refused(connection: Connection, merged: list[int]) -> None:
    new_entries(connection, [entry(number) for number in merged])
    with pytest.raises(AssertionError, match=f"entry {len(merged) + 2} of batch 1 came after entry {len(merged)}"):
        new_entries(connection, [entry(len(merged) + 2)])


def test_nothing_comes_after_the_last_entry(connection: Connection) -> None:
    new_entries(connection, [entry(1), entry(2, last=True)])
    assert new_entries(connection, [entry(3)]) == []
    assert merged_logs(connection, 7) == {1: MergedLog(2, is_closed=True)}


def test_a_run_is_open_until_all_of_it_is_merged(connection: Connection) -> None:
    assert last_run_sequence(connection) == 0
    for sequence in (1, 2):
        enter_run(connection, sequence)
    new_entries(connection, [entry(1, run=2)])
    assert (list(open_run_sequences(connection)), last_run_sequence(connection)) == ([1, 2], 2)
    close_run(connection, 1)
    assert list(open_run_sequences(connection)) == [2]
    assert merged_logs(connection, 2) == {0: MergedLog(), 1: MergedLog(1)}
    close_run(connection, 2)
    assert (list(open_run_sequences(connection)), last_run_sequence(connection)) == ([], 2)

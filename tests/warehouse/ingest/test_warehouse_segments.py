"""Segment files: exactly the landed pages are read from them."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from connectors.warehouse.ingest.landing import segments as module
from connectors.warehouse.ingest.landing.page_commit import Record, last_seq, numbered
from connectors.warehouse.ingest.landing.segments import Segments, recover
from connectors.warehouse.storage.connection import begin_session, connect
from connectors.warehouse.storage.durable import write
from connectors.warehouse.storage.errors import WarehouseUnusable
from models.page_commit import PageCommit, ScopeCooldown
from models.runs import Outcome, OutcomeKind
from tests.warehouse.rig import POSTS, T0, Rig, Scan, at

STAGED = "SELECT seq, page, body FROM ops.staging ORDER BY seq"
EVERYTHING = (
    "FROM ops.staging ORDER BY seq",
    "FROM ops.checkpoints ORDER BY seq",
    "FROM ops.cooldowns",
    "FROM core.run_outcomes",
)


@contextmanager
def session(path: Path, name: str = "s1") -> Iterator[tuple[Rig, Segments]]:
    """A process with the warehouse open; it is killed at the end of the block."""
    with connect(path) as connection:
        recover(connection)
        with connection.begin():
            begin_session(connection, name)
        yield Rig(connection), Segments(path, name)


def pages(many: int, after: int = 0) -> list[Record]:
    scan = Scan(POSTS, "w", T0)
    landings = [scan.page([{"id": f"{n} é 🍲", "text": 'a "b"\\n'}], at(1)) for n in range(many)]
    return numbered(landings, after=after)


def files(path: Path) -> list[Path]:
    return sorted(path.parent.glob("*.segment-*"))


def staged(path: Path) -> list[tuple[object, ...]]:
    """Return the staged pages after a process opens the warehouse."""
    with session(path, "later") as (rig, _):
        return rig.rows(STAGED)


def rows(records: list[Record]) -> list[tuple[object, ...]]:
    return [(one.seq, place, str(one.body, "utf-8")) for place, one in enumerate(records, 1)]


def test_pages_of_a_dead_process_are_staged_by_the_next(path: Path, rig: Rig) -> None:
    scan = Scan(POSTS, "w", T0)
    ended = Outcome(POSTS, "run-1", OutcomeKind.FAILED, T0, at(1), detail='It\'s "so"\nand so.')
    landings = [
        scan.page([{"id": "1"}], at(1)),
        PageCommit(cooldown=ScopeCooldown("catalogue", at(5))),
        PageCommit(outcomes=(ended, ended)),
        scan.page([], at(2), text='{"items":[],\n"next_cursor":null}', unknown_fields=("a'b",)),
        scan.abandon(at(3)),
    ]
    rig.land(*landings)
    expected = [rig.rows(query) for query in EVERYTHING]
    dead = path.with_name("dead.duckdb")
    with session(dead) as (_, segments):
        segments.append(numbered(landings[:2], after=0))
        segments.append(numbered(landings[2:], after=2))
    assert len(files(dead)) == 1
    with session(dead, "s2") as (other, _):
        assert [other.rows(query) for query in EVERYTHING] == expected
        with other.connection.begin():
            assert last_seq(other.connection) == 5
    assert files(dead) == []


def test_a_segment_whose_deletion_was_lost_is_staged_only_once(path: Path) -> None:
    with session(path) as (rig, segments):
        segments.append(pages(3))
        with rig.connection.begin():
            taken = segments.batch()
            segments.take_in(rig.connection, taken)
        copy = path.with_name("copy")
        shutil.copy(taken[0].path, copy)
        segments.drop(taken)
    # As if the power had failed before the deletion was durable.
    copy.rename(taken[0].path)
    assert len(staged(path)) == 3
    assert files(path) == []
    assert len(staged(path)) == 3


def test_uncommitted_segments_are_staged_again(path: Path) -> None:
    with session(path) as (rig, segments):
        segments.append(pages(2))
        rig.connection.db.begin()
        taken = segments.batch()
        segments.take_in(rig.connection, taken)
        rig.connection.db.rollback()
        segments.put_back(taken)
        segments.append(pages(1, after=2))
        with rig.connection.begin():
            taken = segments.batch()
            segments.take_in(rig.connection, taken)
        segments.drop(taken)
        assert [seq for seq, *_ in rig.rows(STAGED)] == [1, 2, 3]
        assert files(path) == []


def test_only_complete_landings_of_a_torn_segment_are_staged(path: Path) -> None:
    records = pages(4)
    with session(path) as (_, segments):
        segments.append(records)
    (file,) = files(path)
    whole = file.read_bytes()
    lengths = {0: 0}
    for size in range(len(whole)):
        there = path.with_name(f"torn-{size % 7}.duckdb")
        shutil.copy(path, there)
        torn = there.with_name(f"{there.name}.segment-000001")
        torn.write_bytes(whole[:size])
        if size % 101 == 0 or size in range(len(whole) - 8, len(whole)):
            found = staged(there)
            assert found == rows(records)[: len(found)]
            lengths[size] = len(found)
        for left in there.parent.glob(f"{there.name}*"):
            left.unlink()
    assert sorted(lengths.values()) == list(lengths.values())
    assert set(lengths.values()) == {0, 1, 2, 3}


@pytest.mark.parametrize("place", [30, 60, -1])
def test_a_changed_byte_ends_the_last_segment(path: Path, place: int) -> None:
    with session(path) as (_, segments):
        segments.append(pages(1))
    (file,) = files(path)
    damaged = bytearray(file.read_bytes())
    damaged[place] ^= 1
    file.write_bytes(damaged)
    assert staged(path) == []


def test_a_missing_segment_is_reported_and_nothing_is_staged(path: Path) -> None:
    with session(path) as (rig, segments):
        segments.append(pages(1))
        rig.connection.db.begin()
        taken = segments.batch()
        segments.take_in(rig.connection, taken)
        segments.put_back(taken)
        rig.connection.db.rollback()
        segments.append(pages(1, after=1))
    first, second = files(path)
    whole = first.read_bytes()
    first.write_bytes(whole[:-1])
    with pytest.raises(
        WarehouseUnusable, match=r"segment-000001 is damaged after \d+ bytes\. Fix: check the disk"
    ) as message:
        staged(path)
    assert len(str(message.value).splitlines()) == 1
    assert files(path) == [first, second]
    first.write_bytes(whole)
    assert [seq for seq, *_ in staged(path)] == [1, 2]


def test_segments_of_another_state_of_the_warehouse_are_refused(path: Path) -> None:
    with session(path):
        pass
    backup = path.with_name("backup")
    shutil.copy(path, backup)
    with session(path, "s2") as (_, segments):
        segments.append(pages(1))
    backup.replace(path)
    with duckdb.connect(str(path)) as db:
        # It knows that the segment with this number is already staged.
        db.execute("INSERT INTO ops.segments SELECT session, 1 FROM ops.segments")
    with pytest.raises(WarehouseUnusable, match="contains pages of another warehouse, or of a later state of this one"):
        staged(path)
    path.unlink()
    with pytest.raises(WarehouseUnusable, match="created a new warehouse or replaced the disk, move that file away"):
        staged(path)
    files(path)[0].unlink()
    assert staged(path) == []


def full(_: int, __: bytes) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_incomplete_write_is_undone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def some(handle: int, data: bytes) -> None:
        write(handle, data[:-3])
        full(handle, data)

    first, second = pages(1), pages(1, after=1)
    with session(path) as (_, segments):
        for _ in range(2):
            monkeypatch.setattr(module, "write", some)
            with pytest.raises(WarehouseUnusable, match=r"No space left on device\. The disk is full. Fix: free space"):
                segments.append(first)
            monkeypatch.undo()
            segments.append(first)
            first, second = second, pages(1, after=2)
    assert [seq for seq, *_ in staged(path)] == [1, 2]


def test_nothing_is_written_after_a_failed_write_that_cannot_be_undone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with session(path) as (_, segments):
        segments.append(pages(1))
        monkeypatch.setattr(os, "fsync", fails)
        with pytest.raises(WarehouseUnusable, match="Input/output error"):
            segments.append(pages(1, after=1))
        monkeypatch.undo()
        with pytest.raises(WarehouseUnusable, match="Input/output error"):
            segments.append(pages(1, after=1))


def test_no_link_is_followed(path: Path) -> None:
    target = path.with_name("precious")
    target.write_text("precious")
    with session(path) as (_, segments):
        path.with_name(f"{path.name}.segment-000001").symlink_to(target)
        with pytest.raises(WarehouseUnusable):
            segments.append(pages(1))
    assert target.read_text() == "precious"


def test_a_link_to_the_warehouse_has_its_segments(path: Path) -> None:
    with session(path):
        pass
    link = path.parent / "elsewhere" / "link.duckdb"
    link.parent.mkdir()
    link.symlink_to(path)
    with session(link, "s2") as (_, segments):
        segments.append(pages(2))
    assert len(staged(path)) == 2


def test_many_landings_are_staged_in_several_steps(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_COMMITS_PER_CALL", 2)
    records = pages(5)
    with session(path) as (_, segments):
        segments.append(records)
    assert staged(path) == rows(records)

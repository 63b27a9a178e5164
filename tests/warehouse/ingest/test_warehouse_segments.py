"""Segment files: exactly the landed pages are read from them."""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from connectors.warehouse.ingest.landing import segments as module
from connectors.warehouse.ingest.landing.frames import Frame, frame
from connectors.warehouse.ingest.landing.segments import LeftOver, Segments
from connectors.warehouse.maintenance.inspection import inspect
from connectors.warehouse.maintenance.opening import opened_store
from connectors.warehouse.storage.connection import begin_session, connect, session_id
from connectors.warehouse.storage.durable import write
from connectors.warehouse.storage.errors import WarehouseUnusable
from models.mapping import BUILT_IN
from models.page_commit import PageCommit, ScopeCooldown
from tests.landed import unmerged
from tests.warehouse.rig import POSTS, T0, Rig, Scan, at, refusal


@contextmanager
def session(path: Path, name: str = "s1") -> Iterator[tuple[Rig, Segments]]:
    """A process that begins to write; it is killed at the end of the block."""
    with connect(path) as connection:
        LeftOver(path, session_id(connection)).delete()
        begin_session(connection, name)
        yield Rig(connection), Segments(path, name, 0)


def pages(many: int, after: int = 0) -> list[PageCommit]:
    scan = Scan(POSTS, "w", T0)
    landings = [scan.page([{"id": f"{n} é 🍲", "text": 'a "b"\\n'}], at(1)) for n in range(after + many)]
    return landings[after:]


def files(path: Path) -> list[Path]:
    return sorted(path.parent.glob("*.segment-*"))


def left(path: Path) -> list[Frame]:
    """Return what the next process finds."""
    with connect(path) as connection:
        return [Frame(seq, commit, bytes(body)) for seq, commit, body in unmerged(connection)]


def framed(commits: list[PageCommit], after: int = 0) -> list[Frame]:
    return [frame(seq, commit) for seq, commit in enumerate(commits, after + 1)]


def opened(path: Path) -> tuple[str, ...]:
    """Open the warehouse as the next process does; return the runs whose pages it merged."""
    with (
        connect(path) as connection,
        opened_store(connection, "a test", now=T0, pause=lambda _: None, mapping=BUILT_IN) as runs,
    ):
        return runs


def merged(path: Path) -> int:
    with connect(path) as connection:
        return int(Rig(connection).value("SELECT count(*) FROM core.media"))


def test_a_cooldown_that_landed_is_known_before_it_is_merged(path: Path) -> None:
    with session(path) as (_, segments):
        segments.append([PageCommit(cooldown=ScopeCooldown(scope, at(hour))) for scope, hour in (("a", 3), ("b", 1))])
    found = inspect(path, "a test", now=at(2), pause=lambda _: None)
    assert found.cooldowns == {"a": at(3)}


def test_pages_whose_merge_failed_are_taken_again_with_those_that_landed_since(path: Path) -> None:
    with session(path) as (_, segments):
        segments.append(pages(2))
        with suppress(KeyError), segments.taken() as frames:
            segments.append(pages(1, after=2))
            assert [one.seq for one in frames()] == [1, 2]
            raise KeyError
        with segments.taken() as frames:
            assert [one.seq for one in frames()] == [1, 2, 3]
        assert files(path) == []
        segments.count_from(7)
        assert segments.append(pages(1)) == 7


def test_only_complete_frames_of_a_torn_segment_are_read(path: Path) -> None:
    with session(path) as (_, segments):
        segments.append(pages(4))
    (file,) = files(path)
    whole, expected = file.read_bytes(), framed(pages(4))
    lengths = {0: 0}
    for size in range(len(whole)):
        if size % 101 == 0 or size in range(len(whole) - 8, len(whole)):
            file.write_bytes(whole[:size])
            found = left(path)
            assert found == expected[: len(found)]
            lengths[size] = len(found)
    assert sorted(lengths.values()) == list(lengths.values())
    assert set(lengths.values()) == {0, 1, 2, 3}


@pytest.mark.parametrize("place", [30, -1])
def test_a_changed_byte_ends_the_last_segment(path: Path, place: int) -> None:
    with session(path) as (_, segments):
        segments.append(pages(1))
    (file,) = files(path)
    damaged = bytearray(file.read_bytes())
    damaged[place] ^= 1
    file.write_bytes(damaged)
    assert left(path) == []


def test_a_damaged_segment_is_reported_and_nothing_is_merged(path: Path) -> None:
    with session(path) as (_, segments):
        segments.append(pages(1))
        with pytest.raises(KeyError), segments.taken():
            raise KeyError
        segments.append(pages(1, after=1))
    first, second = files(path)
    whole = first.read_bytes()
    first.write_bytes(whole[:-1])
    assert re.search(r"segment-000001 is damaged after \d+ bytes\. Fix: check the disk", refusal(lambda: opened(path)))
    assert (files(path), merged(path)) == ([first, second], 0)
    first.write_bytes(whole)
    opened(path)
    assert (files(path), merged(path)) == ([], 2)


def test_segments_of_another_state_of_the_warehouse_are_refused(path: Path) -> None:
    with session(path):
        pass
    backup = path.with_name("backup")
    shutil.copy(path, backup)
    with session(path, "s2") as (_, segments):
        segments.append(pages(1))
    backup.replace(path)
    with pytest.raises(WarehouseUnusable, match="contains pages of another warehouse, or of a later state of this one"):
        opened(path)
    path.unlink()
    with pytest.raises(WarehouseUnusable, match="created a new warehouse or replaced the disk, move that file away"):
        opened(path)
    files(path)[0].unlink()
    assert opened(path) == ()


def full(_: int, __: bytes) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_incomplete_write_is_undone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def some(handle: int, data: bytes) -> None:
        write(handle, data[:-3])
        full(handle, data)

    with session(path) as (_, segments):
        for after in range(2):
            monkeypatch.setattr(module, "write", some)
            with pytest.raises(WarehouseUnusable, match=r"No space left on device\. The disk is full. Fix: free space"):
                segments.append(pages(1, after=after))
            monkeypatch.undo()
            assert segments.append(pages(1, after=after)) == after
    assert left(path) == framed(pages(2))


def test_nothing_is_written_after_a_failed_write_that_cannot_be_undone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with session(path) as (_, segments):
        segments.append(pages(1))
        monkeypatch.setattr(os, "fsync", fails)
        with pytest.raises(WarehouseUnusable, match="Input/output error"):
            segments.append(pages(1))
        monkeypatch.undo()
        with pytest.raises(WarehouseUnusable, match="Input/output error"):
            segments.append(pages(1))


def test_no_link_is_followed(path: Path) -> None:
    target = path.with_name("precious")
    target.write_text("precious")
    with session(path) as (_, segments):
        path.with_name(f"{path.name}.segment-000001").symlink_to(target)
        with pytest.raises(WarehouseUnusable):
            segments.append(pages(1))
    assert target.read_text() == "precious"

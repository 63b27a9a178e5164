"""Segments: files next to the warehouse in which pages land with their checkpoints, until they are merged.

A segment has one line with the id of the session that wrote it, then one frame per page commit: checksum, number,
lengths of the parts, and the parts. Frames are read from the beginning up to the first incomplete one; it and
everything after it are ignored.
"""

import os
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from connectors.warehouse.ingest.landing.page_commit import Bodies, Record, load
from connectors.warehouse.storage.connection import Connection, explain
from connectors.warehouse.storage.durable import open_without_symlinks, sync, write
from connectors.warehouse.storage.errors import WarehouseError, WarehouseUnusable

_MARK = ".segment-"
_LINE = "gramhouse segment 2 {}\n"
# The checksum of everything after it; then the landing number, and the lengths in bytes of page, body, checkpoint,
# outcomes and cooldowns.
_SUM = struct.Struct("<I")
_HEAD = struct.Struct("<Q5I")
_MOST_OF_A_LINE = 1000

_ADD = "INSERT INTO ops.segments (session, number) VALUES (?, ?)"

# The most page commits per call of DuckDB: enough that planning costs little, and few enough for memory.
_COMMITS_PER_CALL = 1024


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of page commits that is no longer written to; numbered from 1 in each session.

    `seqs` are the landing numbers in it, if this session wrote it.
    """

    number: int
    path: Path
    seqs: range = range(0)


def _framed(record: Record) -> bytes:
    parts = [
        record.page.encode(),
        record.body,
        record.checkpoint.encode(),
        record.outcomes.encode(),
        record.cooldowns.encode(),
    ]
    rest = b"".join((_HEAD.pack(record.seq, *map(len, parts)), *parts))
    return _SUM.pack(zlib.crc32(rest)) + rest


def _frames(data: bytes, begin: int, *, summed: bool) -> Iterator[tuple[Record, int]]:
    """Yield each record with the offset of its end, up to the first incomplete frame.

    `summed`: check the checksums, which is not necessary for data that this process wrote.
    """
    while (offset := begin + _SUM.size + _HEAD.size) <= len(data):
        (checksum,) = _SUM.unpack_from(data, begin)
        seq, *lengths = _HEAD.unpack_from(data, begin + _SUM.size)
        end = offset + sum(lengths)
        if end > len(data) or (summed and zlib.crc32(memoryview(data)[begin + _SUM.size : end]) != checksum):
            return
        parts = []
        for length in lengths:
            parts.append(memoryview(data)[offset : offset + length])
            offset += length
        # The body stays a view, because a copy of every body would double the memory of a merge.
        page, body, *others = parts
        yield Record(seq, str(page, "utf-8"), body, *(str(part, "utf-8") for part in others)), end
        begin = end


def _read(segment: Segment, session: str, size: int = -1) -> tuple[bytes, int]:
    """Return the data of a segment, or its first `size` bytes, and the offset of the first frame.

    The offset is 0 if the first line is incomplete. Raises WarehouseUnusable when another session wrote the segment.
    """
    with open(segment.path, "rb", opener=open_without_symlinks) as file:
        # In one call: for each smaller read this thread might wait for the one that requests pages (Python's GIL).
        data = file.read(size)
    end = data.find(b"\n", 0, _MOST_OF_A_LINE) + 1
    if end and data[:end] != _LINE.format(session).encode():
        message = (
            f"{segment.path} contains pages of another warehouse, or of a later state of this one, or is damaged."
            " Fix: if you restored a backup, created a new warehouse or replaced the disk, move that file away: its"
            " pages will be fetched again."
        )
        raise WarehouseUnusable(message)
    return data, end


def _landed(segment: Segment, session: str, *, summed: bool, is_last: bool) -> Iterator[Record]:
    """Yield the records of a segment. Only the last segment may end in an incomplete frame."""
    data, end = _read(segment, session)
    begin = end if end else len(data)
    for record, after in _frames(data, begin, summed=summed):
        end = after
        yield record
    if end < len(data) and not is_last:
        message = (
            f"{segment.path} is damaged after {end:,} bytes. Fix: check the disk, then move this file and those with"
            " higher numbers away: their pages will be fetched again."
        )
        raise WarehouseUnusable(message)


def _take_in(
    connection: Connection,
    segments: Sequence[Segment],
    session: str,
    bodies: Bodies | None = None,
    *,
    summed: bool,
    last: Segment | None = None,
) -> None:
    for segment in segments:
        some: list[Record] = []
        for record in _landed(segment, session, summed=summed, is_last=segment == last):
            some.append(record)
            if len(some) == _COMMITS_PER_CALL:
                load(connection, some, bodies)
                some.clear()
        load(connection, some, bodies)
        _mark_taken(connection, segment, session)


def _mark_taken(connection: Connection, segment: Segment, session: str) -> None:
    connection.db.execute(_ADD, [session, segment.number])


def _left(warehouse: Path) -> list[Segment]:
    begin = warehouse.name + _MARK
    names = (path.name for path in warehouse.parent.iterdir())
    numbers = [name.removeprefix(begin) for name in names if name.startswith(begin)]
    return [_segment(warehouse, number) for number in sorted(int(text) for text in numbers if text.isdecimal())]


def _segment(warehouse: Path, number: int) -> Segment:
    return Segment(number, warehouse.with_name(f"{warehouse.name}{_MARK}{number:06}"))


def _waiting(connection: Connection, left: Sequence[Segment]) -> tuple[list[Segment], str]:
    """Return the segments that are not staged, and their session.

    Raises WarehouseUnusable if one belongs to another session.
    """
    rows = connection.db.execute("SELECT session, number FROM ops.segments").fetchall()
    session = rows[0][0] if rows else ""
    taken = {number for _, number in rows}
    for segment in left:
        # The session is checked too: by its number alone, another session's segment might seem staged.
        _read(segment, session, _MOST_OF_A_LINE)
    return [segment for segment in left if segment.number not in taken], session


def check_segments(connection: Connection) -> None:
    """Check the segments that a killed process left, without changing anything. Raises as `recover` does."""
    try:
        left = _left(connection.path.resolve())
        waiting, session = _waiting(connection, left)
        for segment in waiting:
            for _ in _landed(segment, session, summed=True, is_last=segment == left[-1]):
                pass
    except OSError as error:
        raise explain(connection.path, error) from error


def recover(connection: Connection) -> None:
    """Stage the pages that a killed process left in segments. Call it outside of a transaction.

    Raises WarehouseUnusable when a segment is damaged or belongs to another warehouse.
    """
    warehouse = connection.path.resolve()
    try:
        if left := _left(warehouse):
            with connection.begin():
                waiting, session = _waiting(connection, left)
                _take_in(connection, waiting, session, summed=True, last=left[-1])
            _drop(left)
        # The deletion must be durable before the record that the segment is staged is deleted.
        sync(warehouse.parent)
    except OSError as error:
        raise explain(warehouse, error) from error


def _drop(segments: Sequence[Segment]) -> None:
    for segment in segments:
        segment.path.unlink(missing_ok=True)


class Segments:
    """The segments of the current session. Thread-safe.

    Every method raises WarehouseUnusable when the disk fails; landed pages are kept.
    """

    def __init__(self, warehouse: Path, session: str) -> None:
        """Begin the segments of a session; see `begin_session`."""
        # A symbolic link and its target are the same warehouse.
        self._warehouse = warehouse.resolve()
        self._session = session
        self._lock = threading.Lock()
        self._handle: int | None = None
        self._segment = _segment(self._warehouse, 0)
        self._size = 0
        self._full: list[Segment] = []
        self._broken: WarehouseError | None = None

    def append(self, records: Sequence[Record]) -> None:
        """Write records and return when all of them are durable; after an error none of them is."""
        with self._lock:
            if self._broken is not None:
                raise self._broken
            if not records:
                return
            data = b"".join(map(_framed, records))
            try:
                self._write(data)
            except OSError as error:
                failure = explain(self._warehouse, error)
                self._undo(failure)
                raise failure from error
            begin = self._segment.seqs.start if self._segment.seqs else records[0].seq
            self._segment = replace(self._segment, seqs=range(begin, records[-1].seq + 1))

    def _write(self, data: bytes) -> None:
        if self._handle is None:
            self._segment = _segment(self._warehouse, self._segment.number + 1)
            self._size = 0
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            self._handle = open_without_symlinks(str(self._segment.path), flags)
            data = _LINE.format(self._session).encode() + data
        write(self._handle, data)
        os.fsync(self._handle)
        if not self._size:
            sync(self._warehouse.parent)
        self._size += len(data)

    def _undo(self, failure: WarehouseError) -> None:
        """Remove an incomplete write. If that fails too, every later write fails, because it would be ignored."""
        if self._handle is None:
            return
        try:
            os.ftruncate(self._handle, self._size)
            os.fsync(self._handle)
            if not self._size:
                self._close()
        except OSError:
            self._broken = failure

    def _close(self) -> None:
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self._full.append(self._segment)
            os.close(handle)

    def batch(self) -> tuple[Segment, ...]:
        """Begin another segment; return all complete ones, in the order of landing.

        The caller stages them, then drops them after a commit or puts them back after a rollback.
        """
        with self._lock:
            self._close()
            full, self._full = tuple(self._full), []
        return full

    def take_in(self, connection: Connection, segments: Sequence[Segment], bodies: Bodies | None = None) -> None:
        """Append the contents of segments to the tables, in the open transaction; see `page_commit.load`."""
        _take_in(connection, segments, self._session, bodies, summed=False)

    def put_back(self, segments: Sequence[Segment]) -> None:
        """Return segments to the next batch, after a rollback."""
        with self._lock:
            self._full = [*segments, *self._full]

    def drop(self, segments: Sequence[Segment]) -> None:
        """Delete segments whose contents are committed to the tables."""
        try:
            _drop(segments)
        except OSError as error:
            raise explain(self._warehouse, error) from error

    def close(self) -> None:
        """Close the current file; its pages are recovered when the warehouse is next opened."""
        with self._lock:
            self._close()

"""Segments: files next to the warehouse in which pages land with their checkpoints, until they are merged.

A segment has one line with the id of the session that wrote it, then one frame per landing: checksum, number, lengths
of the parts, and the parts. Frames are read from the beginning up to the first incomplete one; it and everything
after it do not count.
"""

import os
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select

from connectors.warehouse.ingest.landing.page_commit import Record, load
from connectors.warehouse.storage.connection import explain
from connectors.warehouse.storage.durable import open_without_symlinks, sync, write
from connectors.warehouse.storage.errors import WarehouseError, WarehouseUnusable
from models.tables import ops_segments

_MARK = ".segment-"
_LINE = "gramhouse segment 2 {}\n"
# Versions before 0.2 used other names in checkpoints and pages.
_LINE_1 = "gramhouse segment 1 {}\n"
_NAMES_1 = {
    '"walk_id":': '"scan_id":',
    '"lane":': '"run_kind":',
    '"set_aside":': '"rejected":',
    '"state": "walking"': '"state": "scanning"',
}
# A checksum of all that follows; then place in the order of landing, bytes of page, body, checkpoint, outcomes, holds.
_SUM = struct.Struct("<I")
_HEAD = struct.Struct("<Q5I")
_MOST_OF_A_LINE = 1000

# As many landings as are handed to DuckDB at once: enough that planning costs nothing, little enough to hold.
_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of landings that no longer grows; `number` counts the session's from 1.

    `seqs` are the landings' numbers, as far as this session wrote them.
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
    """Yield each landing with the place where it ends, up to the first that is not whole.

    `summed`: its checksum is looked at, too; what this process wrote and read back needs none.
    """
    while (offset := begin + _SUM.size + _HEAD.size) <= len(data):
        (checksum,) = _SUM.unpack_from(data, begin)
        seq, *lengths = _HEAD.unpack_from(data, begin + _SUM.size)
        end = offset + sum(lengths)
        if end > len(data) or (summed and zlib.crc32(memoryview(data)[begin + _SUM.size : end]) != checksum):
            return
        parts = []
        for length in lengths:
            parts.append(data[offset : offset + length])
            offset += length
        page, body, *others = parts
        yield Record(seq, page.decode(), body, *map(bytes.decode, others)), end
        begin = end


def _read(segment: Segment, session: str, size: int = -1) -> tuple[bytes, int]:
    """Return what is in a segment, or its first `size` bytes, and where its landings begin: 0 where it is torn before.

    Raises WarehouseUnusable when another session wrote it.
    """
    with open(segment.path, "rb", opener=open_without_symlinks) as file:
        # In one call: each smaller read would wait for the thread that requests pages.
        data = file.read(size)
    end = data.find(b"\n", 0, _MOST_OF_A_LINE) + 1
    if end and data[:end] not in {line.format(session).encode() for line in (_LINE, _LINE_1)}:
        message = (
            f"{segment.path} holds pages that landed in another warehouse, or in a later state of this one. If you"
            " put a backup in its place, or began anew, move that file away: its pages are asked for again."
        )
        raise WarehouseUnusable(message)
    return data, end


def _renamed(record: Record) -> Record:
    # A quote inside of a JSON text is escaped, so a name and its colon stand nowhere else.
    page, checkpoint = record.page, record.checkpoint
    for old, new in _NAMES_1.items():
        page, checkpoint = page.replace(old, new), checkpoint.replace(old, new)
    return replace(record, page=page, checkpoint=checkpoint)


def _landed(segment: Segment, session: str, *, summed: bool, is_last: bool) -> Iterator[Record]:
    """Read a segment. Only the last one's end may be torn: the others were written to their end."""
    data, end = _read(segment, session)
    begin = end if end else len(data)
    is_version_1 = data.startswith(_LINE_1.format(session).encode())
    for record, after in _frames(data, begin, summed=summed):
        end = after
        yield _renamed(record) if is_version_1 else record
    if end < len(data) and not is_last:
        message = (
            f"{segment.path} is damaged after {end:,} bytes: look after the disk. Move that file away, and those"
            " with higher numbers: their pages are asked for again."
        )
        raise WarehouseUnusable(message)


def _take_in(
    connection: Connection,
    segments: Sequence[Segment],
    session: str,
    bodies: dict[int, bytes] | None = None,
    *,
    summed: bool,
    last: Segment | None = None,
) -> None:
    for segment in segments:
        some: list[Record] = []
        for record in _landed(segment, session, summed=summed, is_last=segment == last):
            some.append(record)
            if len(some) == _AT_ONCE:
                load(connection, some, bodies)
                some.clear()
        load(connection, some, bodies)
        _mark_taken(connection, segment, session)


def _mark_taken(connection: Connection, segment: Segment, session: str) -> None:
    connection.execute(insert(ops_segments).values(session=session, number=segment.number))


def _left(warehouse: Path) -> list[Segment]:
    begin = warehouse.name + _MARK
    names = (path.name for path in warehouse.parent.iterdir())
    numbers = [name.removeprefix(begin) for name in names if name.startswith(begin)]
    return [_segment(warehouse, number) for number in sorted(int(text) for text in numbers if text.isdecimal())]


def _segment(warehouse: Path, number: int) -> Segment:
    return Segment(number, warehouse.with_name(f"{warehouse.name}{_MARK}{number:06}"))


def recover(connection: Connection, warehouse: Path) -> None:
    """Take in what a process landed and died before it was merged; it then waits in the tables. In no transaction.

    Raises WarehouseUnusable when a segment is damaged, or another warehouse's.
    """
    warehouse = warehouse.resolve()
    try:
        if left := _left(warehouse):
            with connection.begin():
                rows = connection.execute(select(ops_segments)).all()
                session = rows[0].session if rows else ""
                taken = {row.number for row in rows}
                for segment in left:
                    # The number alone would match a segment of another session that is staged already.
                    _read(segment, session, _MOST_OF_A_LINE)
                waiting = [segment for segment in left if segment.number not in taken]
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
    """The segments of one session, the writer's; any thread may call.

    Every method raises WarehouseUnusable when the disk fails; what had landed stays.
    """

    def __init__(self, connection: Connection, warehouse: Path, session: str) -> None:
        """Begin a session, in an open transaction; what others left must have been recovered."""
        connection.execute(delete(ops_segments))
        connection.execute(insert(ops_segments).values(session=session, number=0))
        # A link and what it points to are one warehouse.
        self._warehouse = warehouse.resolve()
        self._session = session
        self._lock = threading.Lock()
        self._handle: int | None = None
        self._segment = _segment(self._warehouse, 0)
        self._size = 0
        self._full: list[Segment] = []
        self._broken: WarehouseError | None = None

    def append(self, records: Sequence[Record]) -> None:
        """Return once the records are durable, all of them; after an error none is."""
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
        """Take back what was not written whole. If that fails, too, nothing may follow it."""
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
        """Begin another segment; return those that hold what has landed, in its order.

        The caller stages them, and drops them after its commit or puts them back after a rollback.
        """
        with self._lock:
            self._close()
            full, self._full = tuple(self._full), []
        return full

    def take_in(
        self, connection: Connection, segments: Sequence[Segment], bodies: dict[int, bytes] | None = None
    ) -> None:
        """Append to the tables, in the open transaction, what landed in these segments; see `landing.load`."""
        _take_in(connection, segments, self._session, bodies, summed=False)

    def put_back(self, segments: Sequence[Segment]) -> None:
        """Return segments to the next batch, after a rollback."""
        with self._lock:
            self._full = [*segments, *self._full]

    def drop(self, segments: Sequence[Segment]) -> None:
        """Remove segments whose landings are committed to the tables."""
        try:
            _drop(segments)
        except OSError as error:
            raise explain(self._warehouse, error) from error

    def close(self) -> None:
        """Close the current file; its pages are recovered when the warehouse is next opened."""
        with self._lock:
            self._close()

"""Segments: files next to the warehouse in which pages land with their checkpoints, until they are merged.

A segment has one line with the id of the session that wrote it, then one frame per page commit. Frames are read from
the beginning up to the first incomplete one; it and everything after it are ignored.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from connectors.warehouse.ingest.landing.frames import Frame, as_bytes, frame, frames_of
from connectors.warehouse.storage.connection import explain
from connectors.warehouse.storage.durable import open_without_symlinks, sync, write
from connectors.warehouse.storage.errors import WarehouseError, WarehouseUnusable
from models.page_commit import PageCommit

_MARK = ".segment-"
_LINE = "gramhouse segment 3 {}\n"
_MOST_OF_A_LINE = 1000


def _read(segment: Path, session: str, size: int = -1) -> tuple[bytes, int]:
    """Return the data of a segment, or its first `size` bytes, and the offset of the first frame.

    The offset is 0 if the first line is incomplete. Raises WarehouseUnusable when another session wrote the segment.
    """
    with open(segment, "rb", opener=open_without_symlinks) as file:
        # In one call: for each smaller read this thread might wait for the one that requests pages (Python's GIL).
        data = file.read(size)
    end = data.find(b"\n", 0, _MOST_OF_A_LINE) + 1
    if end and data[:end] != _LINE.format(session).encode():
        raise WarehouseUnusable(
            f"{segment} contains pages of another warehouse, or of a later state of this one, or is damaged."
            " Fix: if you restored a backup, created a new warehouse or replaced the disk, move that file away: its"
            " pages will be fetched again."
        )
    return data, end


def _frames(segments: Sequence[Path], session: str, *, summed: bool) -> Iterator[Frame]:
    """Yield the frames of segments. Only the last segment may end in an incomplete frame."""
    for segment in segments:
        data, end = _read(segment, session)
        for one, after in frames_of(data, end or len(data), summed=summed):
            end = after
            yield one
        if end < len(data) and segment != segments[-1]:
            raise WarehouseUnusable(
                f"{segment} is damaged after {end:,} bytes. Fix: check the disk, then move this file and those"
                " with higher numbers away: their pages will be fetched again."
            )


def _path(warehouse: Path, number: int) -> Path:
    """Return the path of a segment; they are numbered from 1 in each session."""
    return warehouse.with_name(f"{warehouse.name}{_MARK}{number:06}")


def _left(warehouse: Path) -> list[Path]:
    begin = warehouse.name + _MARK
    names = (path.name for path in warehouse.parent.iterdir())
    numbers = [name.removeprefix(begin) for name in names if name.startswith(begin)]
    return [_path(warehouse, number) for number in sorted(int(text) for text in numbers if text.isdecimal())]


@contextmanager
def _explained(warehouse: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise explain(warehouse, error) from error


class LeftOver:
    """The segments that a killed process left."""

    def __init__(self, warehouse: Path, session: str) -> None:
        """Find the segments of the warehouse's last session.

        Raises WarehouseUnusable when one of them belongs to another warehouse.
        """
        self._warehouse = warehouse
        self._session = session
        with _explained(self._warehouse):
            self._segments = _left(self._warehouse)
            for segment in self._segments:
                _read(segment, session, _MOST_OF_A_LINE)

    def __bool__(self) -> bool:
        return bool(self._segments)

    def frames(self) -> Iterator[Frame]:
        """Yield their frames. Raises WarehouseUnusable when a segment is damaged or cannot be read."""
        with _explained(self._warehouse):
            yield from _frames(self._segments, self._session, summed=True)

    def delete(self) -> None:
        """Delete them; return when that is durable, so that a session can begin whose segments have the same names."""
        with _explained(self._warehouse):
            _drop(self._segments)
            sync(self._warehouse.parent)


def _drop(segments: Iterable[Path]) -> None:
    for segment in segments:
        segment.unlink(missing_ok=True)


class Segments:
    """The segments of the current session. Thread-safe.

    Every method raises WarehouseUnusable when the disk fails; landed pages are kept.
    """

    def __init__(self, warehouse: Path, session: str, last: int) -> None:
        """Begin the segments of a session, with landing numbers after `last`; see `begin_session`."""
        self._warehouse = warehouse
        self._session = session
        self._last = last
        self._lock = threading.Lock()
        self._handle: int | None = None
        self._number = 0
        self._size = 0
        self._full: list[Path] = []
        self._broken: WarehouseError | None = None

    def append(self, commits: Sequence[PageCommit]) -> int:
        """Write page commits, and return when all of them are durable; after an error none of them is.

        Returns the landing number before the first one.
        """
        with self._lock:
            if self._broken is not None:
                raise self._broken
            after = self._last
            data = b"".join(as_bytes(frame(seq, commit)) for seq, commit in enumerate(commits, after + 1))
            try:
                self._write(data)
            except OSError as error:
                failure = explain(self._warehouse, error)
                self._undo(failure)
                raise failure from error
            # Counted here, because the caller may be cancelled, and no number may be used twice.
            self._last = after + len(commits)
        return after

    def _write(self, data: bytes) -> None:
        if self._handle is None:
            self._number += 1
            self._size = 0
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            self._handle = open_without_symlinks(str(_path(self._warehouse, self._number)), flags)
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
            self._full.append(_path(self._warehouse, self._number))
            os.close(handle)

    @contextmanager
    def taken(self) -> Iterator[Callable[[], Iterator[Frame]]]:
        """Yield a function that reads all that has landed; delete it if the block, which merges it, succeeds.

        What lands during the block is not part of it. After an error the next call yields the same frames again.
        """
        with self._lock:
            self._close()
            full, self._full = self._full, []
        try:
            with _explained(self._warehouse):
                yield lambda: _frames(full, self._session, summed=False)
                _drop(full)
        except BaseException:
            with self._lock:
                self._full = [*full, *self._full]
            raise

    def count_from(self, last: int) -> None:
        """Give no later page commit a number up to `last`, because others have used these."""
        with self._lock:
            self._last = max(self._last, last)

    def close(self) -> None:
        """Close the current file; its pages are merged when the warehouse is next opened."""
        with self._lock:
            self._close()

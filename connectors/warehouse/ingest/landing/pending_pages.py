"""Landed pages that are not in a table yet and wait for the next merge."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from connectors.warehouse.ingest.landing.page_commit import Bodies, last_seq, numbered
from connectors.warehouse.ingest.landing.segments import Segment, Segments
from connectors.warehouse.storage.connection import Connection
from models.page_commit import PageCommit


class PendingPages:
    """Page commits that have landed since the last batch was taken. Thread-safe.

    Every method raises WarehouseUnusable when the disk fails; landed pages are kept.
    """

    def __init__(self, connection: Connection, segments: Segments) -> None:
        """Begin, in an open transaction, with the number after the last landing in the tables."""
        self._segments = segments
        self._last = last_seq(connection)
        self._lock = threading.Lock()

    @property
    def last(self) -> int:
        """The number of the last landing."""
        return self._last

    def add(self, landings: Sequence[PageCommit]) -> int:
        """Make page commits durable; return the number before the first one. After an error none of them is durable."""
        with self._lock:
            after = self._last
            records = numbered(landings, after=after)
            self._segments.append(records)
            # Counted here, because the caller may be cancelled, and no number may be used twice.
            self._last = after + len(records)
        return after

    def batch(self) -> tuple[Segment, ...]:
        """Return the segments with everything that has landed, and begin a new one."""
        with self._lock:
            return self._segments.batch()

    def stage(self, connection: Connection, batch: Sequence[Segment], bodies: Bodies | None = None) -> None:
        """Append a batch to the tables, in the open transaction; see `page_commit.load`. Also raises duckdb.Error."""
        self._segments.take_in(connection, batch, bodies)

    @contextmanager
    def taken(self, batch: Sequence[Segment]) -> Iterator[None]:
        """Delete a batch's segments if the block, which commits their pages, succeeds; put them back if it fails."""
        try:
            yield
        except BaseException:
            self._segments.put_back(batch)
            raise
        else:
            self._segments.drop(batch)

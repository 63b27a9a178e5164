"""Landed pages that are not in a table yet and wait for the next merge."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection

from connectors.warehouse.ingest.landing.page_commit import last_seq, numbered
from connectors.warehouse.ingest.landing.segments import Segment, Segments
from models.page_commit import PageCommit


class PendingPages:
    """What has landed since it was last cut off; any thread may call.

    Every method raises WarehouseUnusable when the disk fails; what had landed stays.
    """

    def __init__(self, connection: Connection, segments: Segments) -> None:
        """Begin, in an open transaction, behind what is in the tables."""
        self._segments = segments
        self._last = last_seq(connection)
        self._lock = threading.Lock()

    @property
    def last(self) -> int:
        """The number of the last landing."""
        return self._last

    def add(self, landings: Sequence[PageCommit]) -> int:
        """Make landings durable, numbered from one more than what is returned; after an error none of them is."""
        with self._lock:
            after = self._last
            records = numbered(landings, after=after)
            self._segments.append(records)
            # Counted here and not by the caller, which may be cancelled: no number may be given twice.
            self._last = after + len(records)
        return after

    def batch(self) -> tuple[Segment, ...]:
        """Cut off what has landed: the segments that hold it."""
        with self._lock:
            return self._segments.batch()

    def batch_before(self, landings: int) -> tuple[tuple[Segment, ...], int]:
        """Cut off what has landed, and keep the next numbers for so many landings; return the last one before them."""
        with self._lock:
            after = self._last
            self._last += landings
            return self._segments.batch(), after

    def stage(self, connection: Connection, batch: Sequence[Segment], bodies: dict[int, bytes] | None = None) -> None:
        """Append a batch to the tables, in the open transaction; see `landing.load`. Also raises duckdb.Error."""
        self._segments.take_in(connection, batch, bodies)

    @contextmanager
    def taken(self, batch: Sequence[Segment]) -> Iterator[None]:
        """Drop a batch's segments when the block, which commits them, succeeds; put them back when it fails."""
        try:
            yield
        except BaseException:
            self._segments.put_back(batch)
            raise
        else:
            self._segments.drop(batch)

"""What has landed and is in no table yet, on its way to the next fold."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection

from connectors.warehouse.landing import last_seq, numbered
from connectors.warehouse.preparing import Prepared, Preparing, is_whole
from connectors.warehouse.segments import Segment, Segments
from models.landing import Landing


@dataclass(frozen=True, slots=True)
class Cut:
    """What has landed by some moment: the segments that hold it, and what is prepared of it."""

    segments: tuple[Segment, ...]
    prepared: Prepared | None


class Landed:
    """What has landed since it was last cut off; any thread may call.

    Every method raises WarehouseUnusable when the disk fails; what had landed stays.
    """

    def __init__(self, connection: Connection, segments: Segments, preparing: Preparing) -> None:
        """Begin, in an open transaction, behind what is in the tables."""
        self._segments = segments
        self._preparing = preparing
        self._last = last_seq(connection)
        self._lock = threading.Lock()

    @property
    def last(self) -> int:
        """The number of the last landing."""
        return self._last

    def add(self, landings: Sequence[Landing]) -> int:
        """Make landings durable, numbered from one more than what is returned; after an error none of them is."""
        with self._lock:
            after = self._last
            records = numbered(landings, after=after)
            self._segments.append(records)
            # Here, and not by whoever waits: they may be cancelled meanwhile, and no number must be given twice.
            self._last = after + len(records)
            self._preparing.add(records)
        return after

    @property
    def is_to_be_prepared(self) -> bool:
        """Whether enough has landed for it to be worth while to `prepare` it."""
        return self._preparing.has_enough

    def prepare(self) -> None:
        """Take apart what has landed, while more of it lands. It raises nothing."""
        self._preparing.take_apart()

    def cut(self) -> Cut:
        """Cut off what has landed."""
        with self._lock:
            prepared = self._preparing.cut()
            return Cut(self._segments.cut(), prepared)

    def cut_unprepared(self) -> Cut:
        """Cut off what has landed, for somebody who wants it as it came."""
        with self._lock:
            self._preparing.forget()
            return Cut(self._segments.cut(), None)

    def stage(self, connection: Connection, cut: Cut) -> str | None:
        """Put a cut into the tables, in the open transaction; return the table of all items that are staged, if any.

        Raises duckdb.Error, besides.
        """
        if cut.prepared is None or not is_whole(connection, cut.prepared, cut.segments):
            self._segments.take_in(connection, cut.segments)
            return None
        cut.prepared.stage(connection)
        self._segments.mark_taken(connection, cut.segments)
        return cut.prepared.items

    @contextmanager
    def taken(self, connection: Connection, cut: Cut) -> Iterator[None]:
        """Let go of a cut when the block, in which a transaction staged it, ends well; take it in again if not."""
        try:
            yield
        except BaseException:
            self._segments.put_back(cut.segments)
            raise
        else:
            self._segments.drop(cut.segments)
        finally:
            if cut.prepared is not None:
                cut.prepared.drop(connection)

"""Pages taken apart as they land, while a fold is under way: what the next fold would begin with.

It is kept in memory beside the warehouse, by the thread that lands, and only saves the fold that work: what has landed
is in the segments, and a fold for which nothing is prepared, or not all, takes them in.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import duckdb
from sqlalchemy import Connection

from connectors.warehouse.appending import rows_sql
from connectors.warehouse.connection import duck, first_line, value
from connectors.warehouse.field_registry import read_mapping
from connectors.warehouse.landing import Record, load
from connectors.warehouse.segments import Segment
from connectors.warehouse.taking_apart import items_sql
from models.mapping import Mapping
from models.tables import ops_staging

_log = logging.getLogger(__name__)

_HOME = "gramhouse_prepared"

# As much text of pages as is taken apart at once (bytes): enough that planning costs nothing, little enough for
# whoever waits to land.
_AT_ONCE = 2 * 1024 * 1024

# A fold reads the bodies of these: the pages of accounts, and those that Python had something to say of.
_READ_AGAIN = "resource <> 'media' OR set_aside IS NOT NULL OR unknown_fields IS NOT NULL"


@dataclass(frozen=True, slots=True)
class Prepared:
    """What landed one after the other, taken apart by a mapping: its numbers, and all of it that is not a page."""

    number: int
    mapping: Mapping
    seqs: range = range(0)
    rest: tuple[Record, ...] = ()

    @property
    def pages(self) -> str:
        """The table of the pages, as they are staged."""
        return f"{_HOME}.main.pages_{self.number}"

    @property
    def items(self) -> str:
        """The table of the items in those that are of media."""
        return f"{_HOME}.main.items_{self.number}"

    def stage(self, connection: Connection) -> None:
        """Put all of it but the items into the warehouse's tables, in an open transaction."""
        duck(connection).execute(f"INSERT INTO ops.staging BY NAME FROM {self.pages}")
        load(connection, self.rest)

    def drop(self, connection: Connection) -> None:
        """Let go of it, in no transaction."""
        duck(connection).execute(f"DROP TABLE {self.pages}; DROP TABLE {self.items}")


def is_whole(connection: Connection, prepared: Prepared, segments: Sequence[Segment]) -> bool:
    """Say whether a fold would take just this apart, and so: what is in the segments, with nothing staged before."""
    landed = range(segments[0].seqs.start, segments[-1].seqs.stop) if segments else range(0)
    return (
        prepared.seqs == landed
        and not value(duck(connection), "SELECT EXISTS (FROM ops.staging)")
        and prepared.mapping == read_mapping(connection)
    )


class Preparing:
    """What has landed since the last fold began, on its way to being prepared. For the thread that lands."""

    def __init__(self, connection: Connection, *, whole: bool) -> None:
        """Begin, in an open transaction. `whole`: pages keep their bodies, whether a fold reads them or not."""
        self._connection = connection
        self._body = "body" if whole else f"CASE WHEN {_READ_AGAIN} THEN body ELSE '' END"
        duck(connection).execute(f"ATTACH IF NOT EXISTS ':memory:' AS {_HOME}")
        self._ours = Prepared(0, read_mapping(connection))
        self._begin()

    def _begin(self) -> None:
        self._ours = Prepared(self._ours.number + 1, self._ours.mapping)
        self._seqs = range(0)
        self._waiting: list[Record] = []
        self._rest: list[Record] = []
        self._is_made = False
        self._is_hopeless = False

    def add(self, records: Sequence[Record]) -> None:
        """Take apart what landed, once there is enough of it."""
        if self._is_hopeless or not records:
            return
        self._seqs = range(self._seqs.start if self._seqs else records[0].seq, records[-1].seq + 1)
        self._waiting += [one for one in records if one.page]
        self._rest += [replace(one, page="", body="") for one in records]
        if sum(len(one.body) for one in self._waiting) >= _AT_ONCE:
            self._take_apart()

    def cut(self) -> Prepared | None:
        """Return what landed since the last call, and begin anew; None where there is no page, or it is not possible.

        What is returned is to be dropped.
        """
        self._take_apart()
        cut = replace(self._ours, seqs=self._seqs, rest=tuple(self._rest))
        if self._is_hopeless or not self._is_made:
            self.forget()
            return None
        self._begin()
        return cut

    def forget(self) -> None:
        """Forget what landed since the last cut."""
        if self._is_made:
            self._ours.drop(self._connection)
        self._begin()

    def _take_apart(self) -> None:
        if not self._waiting:
            return
        db = duck(self._connection)
        try:
            db.execute("BEGIN")
            self._write()
            db.execute("COMMIT")
            self._is_made = True
        except duckdb.Error as error:
            db.execute("ROLLBACK")
            self._is_hopeless = True
            # The fold says what there is to be said of it.
            _log.debug("The next fold takes pages apart itself: %s", first_line(error))
        self._waiting = []

    def _write(self) -> None:
        items = items_sql(self._ours.mapping, "FROM arrived WHERE resource = 'media'")
        pages = f"SELECT * REPLACE ({self._body} AS body) FROM arrived"  # noqa: S608 - our own query
        db = duck(self._connection)
        rows = [f"[{','.join(one.page for one in self._waiting)}]", [one.body for one in self._waiting]]
        db.execute(f"CREATE TEMP TABLE arrived AS {rows_sql(ops_staging, 'body')}", rows)
        db.execute("SELECT error('It is not JSON.') FROM arrived WHERE resource <> 'media' AND NOT json_valid(body)")
        for table, query in ((self._ours.pages, pages), (self._ours.items, items)):
            db.execute(f"INSERT INTO {table} {query}" if self._is_made else f"CREATE TABLE {table} AS {query}")
        db.execute("DROP TABLE arrived")

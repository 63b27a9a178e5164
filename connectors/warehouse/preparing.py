"""Pages taken apart once they have landed, while a fold is under way: what the next fold would begin with.

It is kept in memory beside the warehouse, and only saves the fold that work: what has landed is in the segments, and a
fold for which nothing is prepared, or not all, takes them in.
"""

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
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

# DuckDB calls a file by its name up to the first dot: none has this one.
_HOME = '"gramhouse.prepared"'

# As much text of pages as is taken apart at once (characters): enough that planning costs nothing.
_AT_ONCE = 2 * 1024 * 1024

# What has arrived is parsed once and read twice. Where something in it is not JSON, nothing comes of it: the fold says
# which.
_ARRIVED = f"CREATE TEMP TABLE arrived AS {rows_sql(ops_staging, 'body')}"
_CHECKED = "SELECT error('It is not JSON.') FROM arrived WHERE resource <> 'media' AND NOT json_valid(body)"


def _pages(number: int) -> str:
    return f"{_HOME}.main.pages_{number}"


def _items(number: int) -> str:
    return f"{_HOME}.main.items_{number}"


def _drop(connection: Connection, number: int) -> None:
    duck(connection).execute(f"DROP TABLE IF EXISTS {_pages(number)}; DROP TABLE IF EXISTS {_items(number)}")


@dataclass(frozen=True, slots=True)
class Prepared:
    """What landed one after the other, taken apart by a mapping: its numbers, and all of it that is not a page."""

    number: int
    mapping: Mapping
    seqs: range
    rest: tuple[Record, ...]

    @property
    def items(self) -> str:
        """The table of the items in those of its pages that are of media."""
        return _items(self.number)

    def stage(self, connection: Connection) -> None:
        """Put all of it but the items into the warehouse's tables, in an open transaction."""
        duck(connection).execute(f"INSERT INTO ops.staging BY NAME FROM {_pages(self.number)}")
        load(connection, self.rest)

    def drop(self, connection: Connection) -> None:
        """Let go of it, in no transaction. It raises nothing: what stays in memory ends with the run."""
        with suppress(duckdb.Error):
            _drop(connection, self.number)


def is_whole(connection: Connection, prepared: Prepared, segments: Sequence[Segment]) -> bool:
    """Say whether a fold would take just this apart, and so: what is in the segments, with nothing staged before."""
    landed = range(segments[0].seqs.start, segments[-1].seqs.stop) if segments else range(0)
    return (
        prepared.seqs == landed
        and not value(duck(connection), "SELECT EXISTS (FROM ops.staging)")
        and prepared.mapping == read_mapping(connection)
    )


class Preparing:
    """What has landed since the last fold began, on its way to being prepared. Nothing here raises.

    One thread may `take_apart` while another does anything else.
    """

    def __init__(self, connection: Connection, *, whole: bool) -> None:
        """Begin, on a connection that nobody else uses. `whole`: pages keep bodies that no fold reads again."""
        self._connection = connection
        self._body = "body" if whole else "CASE WHEN resource <> 'media' THEN body ELSE '' END"
        duck(connection).execute(f"ATTACH ':memory:' AS {_HOME}")
        self._at_work = threading.Lock()
        self._handing_over = threading.Lock()
        self._number = 0
        self._begin()

    def _begin(self) -> None:
        self._number += 1
        self._mapping: Mapping | None = None
        self._seqs = range(0)
        self._waiting: list[Record] = []
        self._waiting_size = 0
        self._rest: list[Record] = []
        self._is_hopeless = False

    @property
    def has_enough(self) -> bool:
        """Whether it is worth while to take apart what waits."""
        return self._waiting_size >= _AT_ONCE

    def add(self, records: Sequence[Record]) -> None:
        """Have what landed taken apart."""
        if self._is_hopeless or not records:
            return
        self._seqs = range(self._seqs.start if self._seqs else records[0].seq, records[-1].seq + 1)
        self._rest += [replace(one, page="", body="") for one in records]
        with self._handing_over:
            self._waiting += [one for one in records if one.page]
            self._waiting_size += sum(len(one.body) for one in records)

    def cut(self) -> Prepared | None:
        """Return what landed since the last call, to be dropped by the caller, and begin anew.

        None where no page landed, or DuckDB could not take one apart.
        """
        self.take_apart()
        with self._at_work:
            if self._is_hopeless or self._mapping is None:
                self._forget()
                return None
            cut = Prepared(self._number, self._mapping, self._seqs, tuple(self._rest))
            self._begin()
            return cut

    def forget(self) -> None:
        """Forget what landed since the last cut."""
        with self._at_work:
            self._forget()

    def _forget(self) -> None:
        with suppress(duckdb.Error):
            _drop(self._connection, self._number)
        self._begin()

    def take_apart(self) -> None:
        """Take apart what waits."""
        with self._at_work:
            with self._handing_over:
                records, self._waiting, self._waiting_size = self._waiting, [], 0
            if not records or self._is_hopeless:
                return
            try:
                with self._connection.begin():
                    mapping = self._mapping or read_mapping(self._connection)
                    self._append(records, mapping)
            except Exception as error:  # noqa: BLE001 - whatever it is, the fold meets it again, or it does not matter
                self._is_hopeless = True
                _log.debug("The next fold takes pages apart itself: %s", first_line(error))
            else:
                self._mapping = mapping

    def _append(self, records: Sequence[Record], mapping: Mapping) -> None:
        db = duck(self._connection)
        db.execute(_ARRIVED, [f"[{','.join(one.page for one in records)}]", [one.body for one in records]])
        db.execute(_CHECKED)
        pages = f"SELECT * REPLACE ({self._body} AS body) FROM arrived"  # noqa: S608 - our own query
        items = items_sql(mapping, "FROM arrived WHERE resource = 'media'")
        for table, query in ((_pages(self._number), pages), (_items(self._number), items)):
            is_first = self._mapping is None
            db.execute(f"CREATE TABLE {table} AS {query}" if is_first else f"INSERT INTO {table} {query}")
        db.execute("DROP TABLE arrived")

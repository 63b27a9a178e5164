"""A warehouse under test, and scans that land pages in it like the flows."""

import json
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import pytest
from sqlalchemy import insert

from connectors.state.database import SqlConnection, open_state, state_path
from connectors.state.inbox import count_landings
from connectors.warehouse.maintenance.rebuild import rebuild_stored
from connectors.warehouse.merge.batches import read_merged
from connectors.warehouse.merge.landed import merge_landed
from connectors.warehouse.merge.run_counts import MergeStats
from connectors.warehouse.raw.parts import live_parts, store_of
from connectors.warehouse.raw.store import parquet
from connectors.warehouse.runs.copied import copy_open_scans
from connectors.warehouse.snapshot.publish import publish
from connectors.warehouse.snapshot.reader import open_snapshot
from connectors.warehouse.storage.appending import append
from connectors.warehouse.storage.connection import Connection, connect
from connectors.warehouse.storage.declared import TABLES
from connectors.warehouse.storage.errors import WarehouseUnusable
from models import mapping as mappings
from models.checkpoint import Checkpoint, RunKind, ScanState
from models.mapping import BUILT_IN
from models.page_commit import Landing, PageCommit, ReceivedPage, RejectedRecord, landing
from models.partition import CATALOGUE, Partition, media
from models.runs import Outcome, OutcomeKind, Run, RunState, resumed_runs
from models.tables import runs

T0 = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)
ANNA = "0b6f7c1e-52a4-4d1b-9a53-2f1d3f0c8e11"
BEN = "11111111-2222-4333-8444-555555555555"
POSTS = media(ANNA, "posts")
STORIES = media(ANNA, "stories")
# The built-in mapping, but /title is a caption too.
TITLE = replace(
    BUILT_IN,
    columns=tuple(
        replace(column, paths=("/title", *column.paths)) if column.column == "caption" else column
        for column in BUILT_IN.columns
    ),
)

Row = tuple[Any, ...]
Item = dict[str, Any]
P = ParamSpec("P")
T = TypeVar("T")


def at(hours: float) -> datetime:
    return T0 + timedelta(hours=hours)


def minute(hour: float, number: int = 1) -> datetime:
    """The time of a page of a scan that `Rig.scan` begins at this hour."""
    return at(hour + number / 60)


def body(items: Sequence[object], cursor: str | None = None) -> str:
    return json.dumps({"items": items, "next_cursor": cursor}, ensure_ascii=False, separators=(",", ":"))


def posts(*numbers: int) -> list[Item]:
    """Items with these ids."""
    return [{"id": str(number)} for number in numbers]


def account(account_id: str = ANNA, *, name: str = "anna", status: str = "active", **more: object) -> Item:
    return {"id": account_id, "ig_username": name, "public_id": "k3Xw9QbT5mZa", "status": status, **more}


@dataclass
class Scan:
    """A scan; each call of `page` returns the landing of its next page."""

    partition: Partition
    scan_id: str
    started_at: datetime
    run_id: str = "run-1"
    run_kind: RunKind = "sync"
    checkpoint: Checkpoint = field(init=False)

    def __post_init__(self) -> None:
        self.checkpoint = Checkpoint(
            self.partition, self.scan_id, self.run_id, self.started_at, self.started_at, run_kind=self.run_kind
        )

    @property
    def over(self) -> bool:
        return self.checkpoint.state is not ScanState.SCANNING

    def page(
        self,
        items: Sequence[object],
        when: datetime,
        *,
        last: bool = False,
        text: str | None = None,
        rejected: tuple[RejectedRecord, ...] = (),
        unknown_fields: tuple[str, ...] = (),
        token_expired: bool = False,
    ) -> PageCommit:
        cursor = None if last else f"{self.scan_id}/{self.checkpoint.pages + 1}"
        self.checkpoint = self.checkpoint.advance(run_id=self.run_id, next_cursor=cursor, items=len(items), at=when)
        page = ReceivedPage(
            partition=self.partition,
            run_id=self.run_id,
            scan_id=self.scan_id,
            page=self.checkpoint.pages,
            received_at=when,
            correlation_id=f"{self.scan_id}-{self.checkpoint.pages}",
            body=body(items, cursor) if text is None else text,
            rejected=rejected,
            unknown_fields=unknown_fields,
            token_expired=token_expired,
        )
        return PageCommit(page, self.checkpoint)

    def abandon(self, when: datetime) -> PageCommit:
        self.checkpoint = self.checkpoint.abandon(run_id=self.run_id, at=when)
        return PageCommit(checkpoint=self.checkpoint)


class Rig:
    """An open warehouse whose landings are numbered in the order of the calls."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.seq = 0
        self.inbox: list[Landing] = []
        self.began: dict[str, int] = {}
        self.checkpoints: dict[tuple[Partition, str], Checkpoint] = {}

    def land(self, *landings: PageCommit) -> None:
        """Land commits."""
        for seq, one in enumerate(landings, self.seq + 1):
            commit = one
            if (checkpoint := one.checkpoint) is not None:
                began_seq = self.began.setdefault(checkpoint.scan_id, seq)
                commit = replace(one, checkpoint=replace(checkpoint, began_seq=began_seq))
                self.checkpoints[checkpoint.partition, checkpoint.run_kind] = replace(checkpoint, began_seq=began_seq)
            self.inbox.append(landing(seq, commit))
        self.seq += len(landings)

    def take(self, count: int) -> int:
        """Take this many landing numbers; return the one before them."""
        self.seq += count
        return self.seq - count

    def _after(self, seq: int) -> Generator[Landing]:
        yield from (one for one in self.inbox if one.seq > seq)

    def record(self, *landings: PageCommit) -> None:
        """Land commits and merge them."""
        self.land(*landings)
        self.merge()

    def merge(self) -> MergeStats:
        last = self.inbox[-1].seq if self.inbox else 0
        counts = merge_landed(self.connection, self._after, lambda _: None, last)
        self.inbox.clear()
        return counts

    def scan(
        self, partition: Partition, scan_id: str, hour: float, *pages: Sequence[object], last: bool = True
    ) -> MergeStats:
        """Land and merge a scan with one page a minute from `hour` on; it is complete unless `last` is false."""
        scan = Scan(partition, scan_id, at(hour))
        for number, items in enumerate(pages, 1):
            when = at(hour) + timedelta(minutes=number)
            self.land(scan.page(items, when, last=last and number == len(pages)))
        return self.merge()

    def scan_twice(self, partition: Partition, scan_id: str, hour: float, *pages: Sequence[object]) -> MergeStats:
        """Scan twice, 13 hours apart, with the same pages: what both miss is removed. Return the counts of both."""
        first, second = (self.scan(partition, f"{scan_id}-{n}", hour + 13 * n, *pages) for n in range(2))
        return first + second

    def days(self, *items: Item) -> None:
        """Scan the posts once a day, and find one item, which is this on each day."""
        for item in items:
            self.scan(POSTS, f"day {self.seq}", 24 * self.seq, [{"id": "1", **item}])

    def rebuild(self, mapping: mappings.Mapping = BUILT_IN) -> None:
        self.call(rebuild_stored, mapping)

    def publish(self, snapshot: Path, hour: float = 500, **more: Any) -> int:  # noqa: ANN401 - as publish has them
        self.copy_open_scans()
        return publish(self.connection, snapshot, at=at(hour), version="1", **more)

    def copy_open_scans(self) -> None:
        known = (one for one in self.checkpoints.values() if one.partition.surface)
        self.call(copy_open_scans, [one for one in known if one.state in (ScanState.SCANNING, ScanState.ABANDONED)])

    def run(
        self,
        run_id: str,
        hour: float,
        outcomes: Mapping[Partition, OutcomeKind] | None = None,
        *,
        state: RunState | None = RunState.COMPLETE,
        kind: str = "sync",
        selection: str | None = None,
        published: bool = True,
    ) -> None:
        """Record a run of one hour with these outcomes; one without a state is still running."""
        self.call(_add_run, run_id, kind, RunState.RUNNING if state is None else state, at(hour), selection)
        ended = (Outcome(of, run_id, how, at(hour), at(hour + 1)) for of, how in (outcomes or {}).items())
        self.record(PageCommit(outcomes=tuple(ended)))
        if published:
            self.do(f"UPDATE core.runs SET published_at = '{at(hour + 1)}' WHERE published_at IS NULL")

    def catalogue(self, scan_id: str, hour: float, *pages: Sequence[object], last: bool = True) -> MergeStats:
        return self.scan(CATALOGUE, scan_id, hour, *pages, last=last)

    def call(self, function: Callable[Concatenate[Connection, P], T], *given: P.args, **named: P.kwargs) -> T:
        """Call a function with the connection, in a transaction."""
        with self.connection.begin():
            return function(self.connection, *given, **named)

    def rows(self, query: str) -> list[Row]:
        with self.connection.begin():
            return self.connection.db.execute(query).fetchall()

    def row(self, query: str) -> Row:
        (only,) = self.rows(query)
        return only

    def value(self, query: str) -> Any:  # noqa: ANN401 - a column is anything
        (only,) = self.row(query)
        return only

    def everything(self, tables: str = "NOT temporary") -> dict[str, list[Row]]:
        """Return the rows of all tables, or of those that this condition names."""
        names = self.rows(f"SELECT schema_name || '.' || table_name FROM duckdb_tables() WHERE {tables} ORDER BY 1")
        return {name: self.rows(f"SELECT COLUMNS(*)::VARCHAR FROM {name} ORDER BY ALL") for (name,) in names}

    def kept(self, table: str = "core.media") -> str:
        """Return a subquery of a table with each row's payload from the raw store (`gh_payload`)."""
        with self.connection.begin():
            source = parquet(store_of(self.connection).path(part.number) for part in live_parts(self.connection))
        joined = f"{table} AS t LEFT JOIN {source} AS r ON r.landed = t.raw_landed"
        return f"(SELECT t.*, r.payload AS gh_payload FROM {joined}) AS kept"

    def do(self, statement: str) -> None:
        with self.connection.begin():
            self.connection.db.execute(statement)


def _add_run(
    connection: Connection, run_id: str, kind: str, state: RunState, began: datetime, selection: str | None
) -> None:
    db = connection.db
    db.execute("UPDATE core.runs SET state = 'interrupted' WHERE state = 'running'")
    [(seq,)] = db.execute("SELECT coalesce(max(seq), 0) + 1 FROM core.runs").fetchall()
    query = """
    SELECT run_id, kind, started_at, state, resumes, published_at IS NOT NULL FROM core.runs
    WHERE kind = ? AND selection IS NOT DISTINCT FROM ? ORDER BY seq DESC
    """
    earlier = [
        Run(earlier_id, its_kind, at_, RunState(its_state), resumes, published=published)
        for earlier_id, its_kind, at_, its_state, resumes, published in db.execute(query, [kind, selection]).fetchall()
    ]
    chain = resumed_runs(earlier, now=began, within=timedelta(hours=12))
    row: Item = {
        "run_id": run_id,
        "seq": seq,
        "kind": kind,
        "selection": selection,
        "state": state,
        "started_at": began,
    }
    ended = None if state is RunState.RUNNING else began + timedelta(hours=1)
    append(
        connection, "core.runs", [{**row, "ended_at": ended, "resumes": chain[0] if chain else None, "version": "1"}]
    )


def ask(snapshot: Path, query: str, **how: bool) -> list[Row]:
    """Query a snapshot."""
    with open_snapshot(snapshot, **how) as opened:
        return opened.query(query).rows


def refusal(work: Callable[[], object], kind: type[Exception] = WarehouseUnusable) -> str:
    """Return the message, of one line, with which work is refused."""
    with pytest.raises(kind) as raised:
        work()
    assert "\n" not in str(raised.value)
    return str(raised.value)


@contextmanager
def in_memory() -> Iterator[Connection]:
    """Open a new warehouse, in a RAM disk if there is one."""
    home = "/dev/shm" if Path("/dev/shm").is_dir() else None
    folder = tempfile.TemporaryDirectory(prefix="warehouse-", dir=home)
    with folder as name, connect(Path(name) / "warehouse.duckdb") as connection:
        yield connection


def emptied(connection: Connection) -> Rig:
    """Reset the warehouse: remove all rows, and all columns and tables that were added for discovered fields."""
    with connection.begin():
        db = connection.db
        found = {
            name
            for (name,) in db.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'core'").fetchall()
        }
        added = found - {name.partition(".")[2] for name in TABLES}
        db.execute("".join(f'DROP TABLE core."{name}";' for name in added) + _as_new())
    return Rig(connection)


@cache
def _as_new() -> str:
    """Return one SQL script that removes all rows and recreates the tables that get columns for discovered fields."""
    made = ("core.media", "core.media_superseded", "core.media_children")
    texts = [f"DROP TABLE {name}; {TABLES[name].create}" for name in made]
    texts += [f"DELETE FROM {name}" for name in TABLES if name not in (*made, "ops.warehouse")]
    texts.append("UPDATE ops.warehouse SET merged_seq = 0")
    return ";".join(texts)


def give_state(connection: Connection) -> None:
    """Write the state of a warehouse that was filled without one: its runs, and the last landing number."""
    names = "run_id", "seq", "kind", "selection", "reason", "state", "started_at", "ended_at", "published_at"
    with connection.begin():
        rows = connection.db.execute(f"SELECT {', '.join(names)} FROM core.runs").fetchall()
        merged = read_merged(connection)

    def write(state: SqlConnection) -> None:
        count_landings(state, merged)
        for row in rows:
            state.execute(insert(runs).values(pid=1, version="1", **dict(zip(names, row, strict=True))))

    with open_state(state_path(connection.path)) as opened:
        opened.write(write)

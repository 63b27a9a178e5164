"""A warehouse with any content: scans and runs at any time, what they left in its tables, and snapshots of it."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from duckdb import DuckDBPyConnection
from sqlalchemy import create_engine

from connectors.state.inbox import land
from connectors.state.published import read_published
from connectors.state.runs import begin_run
from connectors.warehouse.merge.merge import merge_batch
from connectors.warehouse.merge.removals import Removals, remove_missing
from connectors.warehouse.publish.publish import Publication, StateRows, publish
from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.raw.parts import read_parts
from connectors.warehouse.storage.connection import open_warehouse, transaction
from connectors.warehouse.storage.identity import adopt_mapping
from flows.config.settings import Settings
from flows.engine.warehouse import Files, open_files
from models.checkpoint import Checkpoint, Landing, ScanState, ScopeCooldown, cut_batch
from models.feeds import CATALOGUE, Partition, media
from models.files import WarehouseUnusable
from models.mapping import BUILT_IN, MediaMapping
from models.runs import Outcome, OutcomeKind, RunState
from models.selection import read_goals
from models.tables import STATE

START = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)
ANNA = "0b6f7c1e-52a4-4d1b-9a53-2f1d3f0c8e11"
BEN = "11111111-2222-4333-8444-555555555555"
POSTS, STORIES = media(ANNA, "posts"), media(ANNA, "stories")

Item = dict[str, Any]
Row = tuple[Any, ...]


def at(hours: float) -> datetime:
    """Return the time so many hours after START."""
    return START + timedelta(hours=hours)


def account(account_id: str = ANNA, *, name: str = "anna", status: str = "active", **more: object) -> Item:
    """Return a record of the catalogue."""
    return {"id": account_id, "ig_username": name, "public_id": "k3Xw9QbT5mZa", "status": status, **more}


def item(media_id: object, **fields: object) -> Item:
    """Return a record of media, published three months before START."""
    return {"id": media_id, "timestamp": "2025-12-01T00:00:00+0000", "caption": "A caption", **fields}


@dataclass(slots=True)
class Scan:
    """A scan that lands pages; `rig` gives them their numbers. By default it starts when its first page arrives."""

    rig: "Rig"
    partition: Partition
    started_at: datetime | None = None
    pages: int = 0
    items: int = 0
    began_seq: int = 0

    def page(self, *records: object, state: str | None = None, **end: Any) -> Landing:  # noqa: ANN401 - of Checkpoint
        """Land a page; with `state`, it closes the scan."""
        rig = self.rig
        rig.seq += 1
        self.began_seq = self.began_seq or rig.seq
        self.started_at = self.started_at or rig.now
        self.pages += 1
        self.items += len(records)
        of = self.partition, f"scan-{self.began_seq}"
        end |= {"pages": self.pages, "items": self.items, "state": ScanState(state or "scanning")}
        after = Checkpoint(*of, rig.run_id, self.started_at, rig.now, began_seq=self.began_seq, **end)
        body = json.dumps({"items": records, "next_cursor": None if state else "more"}).encode()
        rig.inbox.append(
            Landing(
                self.partition, rig.run_id, of[1], self.pages, rig.now, f"correlation-{rig.seq}", body, after,
                seq=rig.seq, run_seq=rig.run_seq,
            )
        )  # fmt: skip
        return rig.inbox[-1]

    def close(self, *records: object, state: str = "complete", **end: Any) -> Landing:  # noqa: ANN401
        return self.page(*records, state=state, **end)


@dataclass(slots=True)
class Rig:
    """A warehouse, the clock, and an inbox of landings that are not merged yet; and the state's rows of its runs."""

    db: DuckDBPyConnection
    folder: Path
    seq: int = 0
    run_seq: int = 1
    now: datetime = START
    run_id: str = "run-1"
    inbox: list[Landing] = field(default_factory=list)
    mapping: MediaMapping = BUILT_IN
    runs: list[Item] = field(default_factory=list)
    warnings: list[Item] = field(default_factory=list)

    def begin(self, partition: Partition = POSTS, started_at: datetime | None = None) -> Scan:
        return Scan(self, partition, started_at)

    def wait(self, hours: float) -> None:
        self.now += timedelta(hours=hours)

    def merge(self) -> None:
        while batch := cut_batch(self.inbox):
            with transaction(self.db):
                merge_batch(self.db, batch, self.mapping, self.folder / "raw")
            del self.inbox[: len(batch)]

    def end_run(self, *, accept_removals: bool = False) -> Removals:
        """Merge the inbox, end the run, and begin another one."""
        self.merge()
        removals = remove_missing(self.db, self.run_seq, self.run_id, accept_removals=accept_removals)
        self.run_seq += 1
        self.run_id = f"run-{self.run_seq}"
        return removals

    def full_scan(self, *records: object, partition: Partition = POSTS, **end: Any) -> None:  # noqa: ANN401
        """Scan a partition in one page, and merge it."""
        self.begin(partition).close(*records, **end)
        self.merge()

    def scan(self, partition: Partition, hour: float, *pages: Sequence[object]) -> None:
        """Merge a complete scan with one page a minute, in a run of its own."""
        scan = self.begin(partition, at(hour))
        for number, items in enumerate(pages, 1):
            self.now = at(hour + number / 60)
            scan.page(*items, state="complete" if number == len(pages) else None)
        self.end_run()

    def run(
        self,
        run_id: str,
        hour: float,
        outcomes: Mapping[Partition, OutcomeKind | Outcome] | None = None,
        *scans: tuple[Partition, float, Sequence[object]],
        state: RunState | None = RunState.COMPLETE,
        kind: str = "sync",
        published: bool = True,
        **more: object,
    ) -> None:
        """Record a run of one hour with these outcomes and scans; one without a state is still running.

        A run that was not published, or was interrupted, is resumed by the next one.
        """
        ended = None if state is None else at(hour + 1)
        before = self.runs[-1] if self.runs else None
        if before is not None and before["state"] == RunState.RUNNING:
            before["state"] = RunState.INTERRUPTED
        is_unfinished = before and (before["state"] == RunState.INTERRUPTED or before["published_at"] is None)
        self.runs.append(
            {
                "run_id": run_id, "seq": self.run_seq, "kind": kind, "state": state or RunState.RUNNING, "version": "1",
                "started_at": at(hour), "ended_at": ended, "published_at": ended if published else None,
                "resumes": before["run_id"] if before and is_unfinished else None, **more,
            }
        )  # fmt: skip
        self.run_id = run_id
        for partition, received, items in scans:
            self.now = at(received)
            self.begin(partition, at(received - 1 / 60)).close(*items)
        end = at(hour + 1)
        found = tuple(
            replace(how, run_id=run_id) if isinstance(how, Outcome) else Outcome(of, run_id, how, at(hour), end)
            for of, how in (outcomes or {}).items()
        )
        if found:
            self.seq += 1
            self.inbox.append(Landing(CATALOGUE, run_id, outcomes=found, seq=self.seq, run_seq=self.run_seq))
        self.end_run()

    def state(self) -> StateRows:
        """Return what a publication brings from the state: the runs, their warnings, and no open scans."""
        rows: Sequence[list[Item]] = (self.runs, self.warnings, [])
        return [pa.Table.from_pylist(*each) for each in zip(rows, _state_schemas(), strict=True)]

    def publish(self, snapshot: Path | None = None, hour: float = 500, **given: Any) -> Path:  # noqa: ANN401
        """Publish a snapshot; return its path."""
        path = snapshot or self.folder / "analytics.duckdb"
        day = timedelta(days=1)
        publication = Publication(
            at(hour), "1", 1.5 * day, 7 * day, read_goals("1d"), raw_folder=self.folder / "raw", **given
        )
        publish(self.db, self.folder / "warehouse.duckdb", path, self.state(), publication)
        return path

    def rows(self, columns: str, table: str = "media", order: str = "ALL NULLS FIRST") -> list[Row]:
        """Return rows of a table of schema core."""
        return self.db.execute(f"SELECT {columns} FROM core.{table} ORDER BY {order}").fetchall()

    def raw(self) -> list[Item]:
        """Return all rows of the raw store."""
        return [row for part in read_parts(self.folder / "raw", merged_seq=self.seq) for row in part.to_pylist()]

    def values(self, column: str, table: str = "media", order: str = "ALL NULLS FIRST") -> list[Any]:
        return [value for (value,) in self.rows(column, table, order)]


@cache
def _state_schemas() -> Sequence[pa.Schema]:
    with create_engine("sqlite://").connect() as connection:
        STATE.create_all(connection)
        return [table.schema for table in read_published(connection)]


@cache
def _new_file() -> bytes:
    """Return a new warehouse file: it takes longer to create one than to merge a page."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "new.duckdb"
        with open_warehouse(path) as db, transaction(db):
            adopt_mapping(db, BUILT_IN)
            # A rig has any mapping.
            db.execute("UPDATE core.warehouse SET mapping = NULL, content_rule = NULL")
        return path.read_bytes()


@contextmanager
def opened(folder: Path) -> Iterator[Rig]:
    """Open the warehouse of a folder; create it first if it is empty."""
    path = folder / "warehouse.duckdb"
    if not path.exists():
        path.write_bytes(_new_file())
    with open_warehouse(path) as db:
        yield Rig(db, folder)


@dataclass(slots=True, kw_only=True)
class StateRig(Rig):
    """A warehouse with its state, in which the inbox lands."""

    files: Files

    def begin_run(self, kind: str = "sync", **about: Any) -> None:  # noqa: ANN401 - of begin_run
        given = {"now": self.now, "within": timedelta(), "pid": 1, "version": "1", **about}
        self.files.state.write(begin_run, self.run_id, kind, **given)

    def land(self, *more: ScopeCooldown) -> None:
        self.files.state.write(land, [*self.inbox, *more])
        self.inbox.clear()

    def merge(self) -> None:
        self.land()
        self.files.merge(self.db)


@contextmanager
def opened_with_state(warehouse: Path) -> Iterator[StateRig]:
    """Open a warehouse with its state; create them if necessary."""
    with open_files(Settings(warehouse=warehouse), "gramhouse sync", now=START) as files:
        yield StateRig(files.db, warehouse.parent, files=files)


def contents(db: DuckDBPyConnection) -> Mapping[str, Sequence[Item]]:
    """Return all rows of all tables, sorted."""
    tables = db.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'core'").fetchall()
    # The number of the last part of the raw store is the first landing of a batch.
    columns = {"warehouse": "* EXCLUDE (raw_seq)"}
    queries = {table: f"SELECT {columns.get(table, '*')} FROM core.{table} ORDER BY ALL" for (table,) in tables}
    return {table: db.execute(query).to_arrow_table().to_pylist() for table, query in queries.items()}


def ask(snapshot: Path, query: str) -> list[Row]:
    """Query a snapshot."""
    with open_snapshot(snapshot) as found:
        return found.db.execute(query).fetchall()


def refusal(work: Callable[[], object]) -> str:
    """Return the message, of one line, with which work is refused."""
    with pytest.raises(WarehouseUnusable) as raised:
        work()
    assert "\n" not in str(raised.value)
    return str(raised.value)

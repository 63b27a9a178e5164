"""Builds landings, merges them, and reads the tables of the store."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from duckdb import DuckDBPyConnection

from connectors.state.inbox import land
from connectors.state.runs import begin_run
from connectors.warehouse.merge.merge import merge_batch
from connectors.warehouse.merge.removals import Removals, remove_missing
from connectors.warehouse.storage.connection import open_warehouse, transaction
from flows.config.settings import Settings
from flows.engine.warehouse import Files, open_files
from models.checkpoint import Checkpoint, Landing, ScanState, ScopeCooldown, cut_batch
from models.feeds import Partition, media
from models.mapping import BUILT_IN, MediaMapping

START = datetime(2026, 1, 1, tzinfo=UTC)
ACCOUNT = "00000000-0000-4000-8000-000000000001"
POSTS, STORIES = media(ACCOUNT, "posts"), media(ACCOUNT, "stories")

Record = Mapping[str, Any]


def account(number: int, status: str = "active", name: str | None = None) -> Record:
    """Return a record of the catalogue."""
    account_id, public_id = f"00000000-0000-4000-8000-{number:012}", f"A{number:011}"
    return {"id": account_id, "ig_username": name or f"user{number}", "public_id": public_id, "status": status}


def item(media_id: object, **fields: object) -> Record:
    """Return a record of media, published on the first of December."""
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
                seq=rig.seq, run_seq=rig.run,
            )
        )  # fmt: skip
        return rig.inbox[-1]

    def close(self, *records: object, state: str = "complete", **end: Any) -> Landing:  # noqa: ANN401
        return self.page(*records, state=state, **end)


@dataclass(slots=True)
class Rig:
    """A store, the clock, and an inbox of landings that are not merged yet."""

    db: DuckDBPyConnection
    folder: Path
    seq: int = 0
    run: int = 1
    now: datetime = START
    run_id: str = "run-1"
    inbox: list[Landing] = field(default_factory=list)
    mapping: MediaMapping = BUILT_IN

    def scan(self, partition: Partition = POSTS, started_at: datetime | None = None) -> Scan:
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
        removals = remove_missing(self.db, self.run, self.run_id, accept_removals=accept_removals)
        self.run += 1
        self.run_id = f"run-{self.run}"
        return removals

    def full_scan(self, *records: object, partition: Partition = POSTS, **end: Any) -> None:  # noqa: ANN401
        """Scan a partition in one page, and merge it."""
        self.scan(partition).close(*records, **end)
        self.merge()

    def rows(self, columns: str, table: str = "media", order: str = "ALL NULLS FIRST") -> list[tuple[Any, ...]]:
        """Return rows of a table of schema core."""
        return self.db.execute(f"SELECT {columns} FROM core.{table} ORDER BY {order}").fetchall()

    def values(self, column: str, table: str = "media", order: str = "ALL NULLS FIRST") -> list[Any]:
        return [value for (value,) in self.rows(column, table, order)]


@cache
def _new_file() -> bytes:
    """Return a new warehouse file: it takes longer to create one than to merge a page."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "new.duckdb"
        with open_warehouse(path):
            pass
        return path.read_bytes()


@contextmanager
def opened(folder: Path) -> Iterator[Rig]:
    """Open the store of a folder; create it first if it is empty."""
    path = folder / "warehouse.duckdb"
    if not path.exists():
        path.write_bytes(_new_file())
    with open_warehouse(path) as db:
        yield Rig(db, folder)


@dataclass(slots=True, kw_only=True)
class StateRig(Rig):
    """A store with its state, in which the inbox lands."""

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
    """Open a store with its state; create them if necessary."""
    with open_files(Settings(warehouse=warehouse), "gramhouse sync", now=START) as files:
        yield StateRig(files.db, warehouse.parent, files=files)


def contents(db: DuckDBPyConnection) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return all rows of all tables, sorted."""
    tables = db.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'core'").fetchall()
    # The number of the last part of the raw store is the first landing of a batch.
    columns = {"warehouse": "* EXCLUDE (raw_seq)"}
    queries = {table: f"SELECT {columns.get(table, '*')} FROM core.{table} ORDER BY ALL" for (table,) in tables}
    return {table: db.execute(query).to_arrow_table().to_pylist() for table, query in queries.items()}

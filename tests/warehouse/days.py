"""Scans and runs at given hours, each scan a run of its own, and snapshots of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import create_engine

from connectors.state.published import read_published
from connectors.warehouse.publish.publish import Publication, publish
from connectors.warehouse.queries.reader import open_snapshot
from models.checkpoint import Landing
from models.errors import WarehouseUnusable
from models.feeds import CATALOGUE, Partition, media
from models.runs import Outcome, OutcomeKind, RunState
from models.selection import read_goals
from models.tables import STATE
from tests.warehouse.rig import Rig, opened

T0 = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)
ANNA = "0b6f7c1e-52a4-4d1b-9a53-2f1d3f0c8e11"
BEN = "11111111-2222-4333-8444-555555555555"
POSTS = media(ANNA, "posts")
STORIES = media(ANNA, "stories")

Item = dict[str, Any]
Row = tuple[Any, ...]


def at(hours: float) -> datetime:
    """Return the time this many hours after the first."""
    return T0 + timedelta(hours=hours)


def minute(hour: float, number: int = 1) -> datetime:
    """Return the time of a page of a scan that began at this hour."""
    return at(hour + number / 60)


def account(account_id: str = ANNA, *, name: str = "anna", status: str = "active", **more: object) -> Item:
    """Return a record of the catalogue."""
    return {"id": account_id, "ig_username": name, "public_id": "k3Xw9QbT5mZa", "status": status, **more}


@dataclass(slots=True)
class Days:
    """A warehouse whose scans are each a run, and the rows of the state that a snapshot shows."""

    rig: Rig
    runs: list[Item] = field(default_factory=list)
    warnings: list[Item] = field(default_factory=list)

    def scan(self, partition: Partition, hour: float, *pages: Sequence[object]) -> None:
        """Merge a complete scan with one page a minute, in a run of its own."""
        scan = self.rig.scan(partition, at(hour))
        for number, items in enumerate(pages, 1):
            self.rig.now = minute(hour, number)
            scan.page(*items, state="complete" if number == len(pages) else None)
        self.rig.end_run()

    def scan_twice(self, partition: Partition, hour: float, *pages: Sequence[object]) -> None:
        """Scan twice, 13 hours apart: what both miss is removed."""
        for n in range(2):
            self.scan(partition, hour + 13 * n, *pages)

    def catalogue(self, hour: float, *pages: Sequence[object]) -> None:
        """Merge a scan of the catalogue."""
        self.scan(CATALOGUE, hour, *pages)

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
        rig = self.rig
        ended = None if state is None else at(hour + 1)
        before = self.runs[-1] if self.runs else None
        if before is not None and before["state"] == RunState.RUNNING:
            before["state"] = RunState.INTERRUPTED
        is_unfinished = before and (before["state"] == RunState.INTERRUPTED or before["published_at"] is None)
        self.runs.append(
            {
                "run_id": run_id, "seq": rig.run, "kind": kind, "state": state or RunState.RUNNING, "version": "1",
                "started_at": at(hour), "ended_at": ended, "published_at": ended if published else None,
                "resumes": before["run_id"] if before and is_unfinished else None, **more,
            }
        )  # fmt: skip
        rig.run_id = run_id
        for partition, received, items in scans:
            rig.now = at(received)
            rig.scan(partition, at(received - 1 / 60)).close(*items)
        end = at(hour + 1)
        found = tuple(
            replace(how, run_id=run_id) if isinstance(how, Outcome) else Outcome(of, run_id, how, at(hour), end)
            for of, how in (outcomes or {}).items()
        )
        if found:
            rig.seq += 1
            rig.inbox.append(Landing(CATALOGUE, run_id, outcomes=found, seq=rig.seq, run_seq=rig.run))
        rig.end_run()

    def publish(self, snapshot: Path | None = None, hour: float = 500, **given: Any) -> Path:  # noqa: ANN401
        """Publish a snapshot; return its path."""
        rig = self.rig
        path = snapshot or rig.folder / "analytics.duckdb"
        rows: Sequence[list[Item]] = (self.runs, self.warnings, [])
        state = [pa.Table.from_pylist(*each) for each in zip(rows, state_schemas(), strict=True)]
        day = timedelta(days=1)
        publication = Publication(
            at(hour), "1", 1.5 * day, 7 * day, read_goals("1d"), raw_folder=rig.folder / "raw", **given
        )
        publish(rig.db, rig.folder / "warehouse.duckdb", path, state, publication)
        return path

    def ask(self, query: str, **given: Any) -> list[Row]:  # noqa: ANN401
        """Publish, and return the answer of the snapshot."""
        return ask(self.publish(**given), query)

    def rows(self, query: str) -> list[Row]:
        """Return the answer of the warehouse."""
        return self.rig.db.execute(query).fetchall()


def ask(snapshot: Path, query: str) -> list[Row]:
    """Query a snapshot."""
    with open_snapshot(snapshot) as opened_snapshot:
        return opened_snapshot.db.execute(query).fetchall()


@cache
def state_schemas() -> Sequence[pa.Schema]:
    """Return the schemas of the runs, warnings and checkpoints that are published from the state."""
    with create_engine("sqlite://").connect() as connection:
        STATE.create_all(connection)
        return [table.schema for table in read_published(connection)]


@contextmanager
def opened_days(folder: Path) -> Iterator[Days]:
    """Open the warehouse of a folder; create it first if it is empty."""
    with opened(folder) as rig:
        yield Days(rig)


def refusal(work: Callable[[], object]) -> str:
    """Return the message, of one line, with which work is refused."""
    with pytest.raises(WarehouseUnusable) as raised:
        work()
    assert "\n" not in str(raised.value)
    return str(raised.value)

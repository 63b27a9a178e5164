"""Bugs that are injected on purpose, to verify that the stateful tests find them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from connectors.warehouse import warehouse as writing
from connectors.warehouse.ingest.landing.page_commit import Bodies, Record
from connectors.warehouse.ingest.landing.segments import Segments
from connectors.warehouse.merge import merge
from connectors.warehouse.merge.run_counts import MergeStats
from connectors.warehouse.snapshot.publish import publish
from connectors.warehouse.storage.connection import Connection
from tests.simulation.injected_bugs import one_scan_removes

InjectBug = Callable[[pytest.MonkeyPatch], None]


def _commit(connection: Connection) -> None:
    connection.db.commit()
    connection.db.begin()


def _into_the_table(connection: Connection, bodies: Bodies) -> None:
    for seq, body in bodies.items():
        connection.db.execute("UPDATE ops.staging SET body = ? WHERE seq = ?", [str(body, "utf-8"), seq])
    bodies.clear()


def _forgotten_when_merged(patch: pytest.MonkeyPatch) -> None:
    """The items that an unfinished scan has seen are not remembered."""
    patch.setattr(merge, "_REMEMBER", merge._REMEMBER[:1])  # noqa: SLF001


def _checkpoint_before_rows(patch: pytest.MonkeyPatch) -> None:
    """Checkpoint and rows are written as two frames instead of one."""
    append = Segments.append

    def append_twice(self: Segments, records: Sequence[Record]) -> None:
        append(self, [replace(one, page="", body=b"") for one in records])
        append(self, [Record(one.seq, page=one.page, body=one.body) for one in records])

    patch.setattr(Segments, "append", append_twice)


def _cleared_before_it_is_merged(patch: pytest.MonkeyPatch) -> None:
    """Staged pages are deleted in one transaction and merged in another."""

    def merge_twice(connection: Connection, bodies: Bodies, _: object) -> MergeStats:
        _into_the_table(connection, bodies)
        for table in ("staging", "checkpoints"):
            connection.db.execute(f"CREATE OR REPLACE TEMP TABLE taken_{table} AS FROM ops.{table}")
        connection.db.execute("DELETE FROM ops.staging")
        _commit(connection)
        connection.db.execute("INSERT INTO ops.staging FROM taken_staging")
        return merge.merge(connection)

    patch.setattr(writing, "merge", merge_twice)


def _old_snapshot_away_first(patch: pytest.MonkeyPatch) -> None:
    def in_its_place(connection: Connection, snapshot: Path, *, at: datetime, version: str, **more: Any) -> int:  # noqa: ANN401
        snapshot.unlink(missing_ok=True)
        return publish(connection, snapshot, at=at, version=version, **more)

    patch.setattr(writing, "publish", in_its_place)


def _unmerged_is_published(patch: pytest.MonkeyPatch) -> None:
    """Publishing includes pages that were not merged when it was called."""

    def eager(connection: Connection, snapshot: Path, *, at: datetime, version: str, **more: Any) -> int:  # noqa: ANN401
        with connection.begin():
            merge.merge(connection)
        return publish(connection, snapshot, at=at, version=version, **more)

    patch.setattr(writing, "publish", eager)


INJECTED_BUGS: Mapping[str, InjectBug] = {
    "seen items are forgotten": _forgotten_when_merged,
    "checkpoint before rows": _checkpoint_before_rows,
    "cleared before it is merged": _cleared_before_it_is_merged,
    "the old snapshot is deleted first": _old_snapshot_away_first,
    "unmerged pages are published": _unmerged_is_published,
    "one recent scan removes": one_scan_removes,
}

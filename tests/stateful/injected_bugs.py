"""Bugs that are injected on purpose, to verify that the stateful tests find them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from connectors.warehouse import warehouse as writing
from connectors.warehouse.ingest.landing.batches import read_merged, write_merged
from connectors.warehouse.ingest.landing.frames import Frame
from connectors.warehouse.ingest.landing.segments import Segments
from connectors.warehouse.merge import landed, merge
from connectors.warehouse.merge.run_counts import MergeStats
from connectors.warehouse.snapshot.publish import publish
from connectors.warehouse.storage.connection import Connection
from models.page_commit import PageCommit
from tests.landed import unmerged
from tests.simulation.injected_bugs import one_scan_removes, replace_in_step

InjectBug = Callable[[pytest.MonkeyPatch], None]


def _commit(connection: Connection) -> None:
    connection.db.commit()
    connection.db.begin()


def _forgotten_when_merged(patch: pytest.MonkeyPatch) -> None:
    """The items that an unfinished scan has seen are not remembered."""
    replace_in_step(patch, "seen", "WHERE c.state = 'scanning'\nUNION", "WHERE false\nUNION")


def _checkpoint_before_rows(patch: pytest.MonkeyPatch) -> None:
    """Checkpoint and rows are written as two frames instead of one."""
    append = Segments.append

    def append_twice(self: Segments, commits: Sequence[PageCommit]) -> int:
        append(self, [replace(one, page=None) for one in commits])
        return append(self, [PageCommit(page=one.page) for one in commits])

    patch.setattr(Segments, "append", append_twice)


def _cleared_before_it_is_merged(patch: pytest.MonkeyPatch) -> None:
    """Pages count as merged in one transaction, and are merged in another."""
    real_merge = merge.merge

    def merge_later(connection: Connection, frames: Sequence[Frame]) -> MergeStats:
        write_merged(connection, read_merged(connection).with_batch(frames, ()))
        _commit(connection)
        return real_merge(connection, frames)

    patch.setattr(merge, "merge", merge_later)


def _out_of_order(patch: pytest.MonkeyPatch) -> None:
    """The pages of the scans of a partition are merged together."""
    patch.setattr(landed, "batches_of", lambda frames: [found] if (found := list(frames)) else [])


def _old_snapshot_away_first(patch: pytest.MonkeyPatch) -> None:
    def in_its_place(connection: Connection, snapshot: Path, *, at: datetime, version: str, **more: Any) -> int:  # noqa: ANN401
        snapshot.unlink(missing_ok=True)
        return publish(connection, snapshot, at=at, version=version, **more)

    patch.setattr(writing, "publish", in_its_place)


def _unmerged_is_published(patch: pytest.MonkeyPatch) -> None:
    """Publishing includes pages that were not merged when it was called."""

    def eager(connection: Connection, snapshot: Path, *, at: datetime, version: str, **more: Any) -> int:  # noqa: ANN401
        landed.merge_landed(connection, lambda: unmerged(connection))
        return publish(connection, snapshot, at=at, version=version, **more)

    patch.setattr(writing, "publish", eager)


INJECTED_BUGS: Mapping[str, InjectBug] = {
    "seen items are forgotten": _forgotten_when_merged,
    "checkpoint before rows": _checkpoint_before_rows,
    "cleared before it is merged": _cleared_before_it_is_merged,
    "scans are merged together": _out_of_order,
    "the old snapshot is deleted first": _old_snapshot_away_first,
    "unmerged pages are published": _unmerged_is_published,
    "one recent scan removes": one_scan_removes,
}

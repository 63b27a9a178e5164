"""Bugs that are injected on purpose, to verify that the simulation finds them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from connectors.source import retry as backoff
from connectors.warehouse.ingest.landing.batches import read_merged, write_merged
from connectors.warehouse.ingest.landing.frames import Frame
from connectors.warehouse.ingest.landing.segments import Segments
from connectors.warehouse.merge import landed, merge, steps
from connectors.warehouse.merge.run_counts import MergeStats
from connectors.warehouse.snapshot import contents
from connectors.warehouse.snapshot.publish import publish
from connectors.warehouse.storage.connection import Connection
from flows.engine import batch_scan, listing, run, scan, upkeep
from models import incremental
from models.checkpoint import plan_scan
from models.incremental import ClosedScan, FeedProgress, FullReason, Incremental
from models.incremental import why_full as real_why_full
from models.page_commit import PageCommit

InjectBug = Callable[[pytest.MonkeyPatch], None]


def _dropped_page(patch: pytest.MonkeyPatch) -> None:
    """Of two pages in one commit, the second is dropped."""

    append = Segments.append

    def append_without(self: Segments, commits: Sequence[PageCommit]) -> int:
        kept = [replace(one, page=None) if index == 1 else one for index, one in enumerate(commits)]
        return append(self, kept)

    patch.setattr(Segments, "append", append_without)


def _tombstones_after_a_partial_scan(patch: pytest.MonkeyPatch) -> None:
    replace_in_step(patch, "scans", "c.state = 'complete'", "c.state = c.state")


def _retries_too_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(backoff, "_WAIT_JITTER", -0.2)


def _forgets_cooldowns(patch: pytest.MonkeyPatch) -> None:
    def cooldowns(_: Connection, *, now: datetime) -> Mapping[str, datetime]:  # noqa: ARG001 - as it is called
        return {}

    patch.setattr(run, "cooldowns", cooldowns)


def _scans_expired(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(listing, "_EXPIRED", "expired")


def _scans_again(patch: pytest.MonkeyPatch) -> None:
    """Scans that the interrupted run had completed are ignored."""
    patch.setattr(scan, "plan_scan", lambda *args, **kwargs: plan_scan(*args, **{**kwargs, "resumed_runs": ()}))


def _unproved(patch: pytest.MonkeyPatch) -> None:
    """The order of the feed is ignored: known posts always stop a scan."""

    def why_full(closed: ClosedScan | None, mode: Incremental | None) -> FullReason | None:
        why = real_why_full(closed, mode)
        return None if why is FullReason.UNPROVED else why

    patch.setattr(batch_scan, "why_full", why_full)
    patch.setattr(FeedProgress, "reaches_known", property(lambda feed: feed.known_run >= incremental.KNOWN_RUN))


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
        connection.db.commit()
        connection.db.begin()
        return real_merge(connection, frames)

    patch.setattr(merge, "merge", merge_later)


def _out_of_order(patch: pytest.MonkeyPatch) -> None:
    """The pages of the scans of a partition are merged together."""
    patch.setattr(landed, "batches_of", lambda frames: [found] if (found := list(frames)) else [])


def _old_snapshot_away_first(patch: pytest.MonkeyPatch) -> None:
    def in_its_place(connection: Connection, snapshot: Path, *, at: datetime, version: str, **more: Any) -> int:  # noqa: ANN401
        snapshot.unlink(missing_ok=True)
        return publish(connection, snapshot, at=at, version=version, **more)

    patch.setattr(upkeep, "publish", in_its_place)


def replace_text(patch: pytest.MonkeyPatch, module: object, name: str, old: str, new: str) -> None:
    text = getattr(module, name)
    assert text.count(old) == 1
    patch.setattr(module, name, text.replace(old, new))


def replace_in_step(patch: pytest.MonkeyPatch, step: str, old: str, new: str) -> None:
    """Replace a text in a step of the merge."""
    read = steps._read  # noqa: SLF001
    text = read(step)
    assert text.count(old) == 1
    patch.setattr(steps, "_read", lambda name: text.replace(old, new) if name == step else read(name))


def _children_without_places(patch: pytest.MonkeyPatch) -> None:
    """An item whose children only change places is the same."""
    replace_in_step(patch, "compare", "bit_xor(hash(content)) AS content", "bit_xor(content) AS content")


def _one_scan_removes(patch: pytest.MonkeyPatch) -> None:
    """Items that one scan misses are marked as removed at once."""
    replace_in_step(patch, "missed_items", "if(c.has_ended, 'expired', NULL)", "if(c.has_ended, 'expired', 'removed')")


def _seen_by_recent_scans(patch: pytest.MonkeyPatch) -> None:
    """A recent scan counts as having seen all posts, not only those that it covered."""
    replace_text(patch, contents, "_RECENT_AT", " AND gh_row.published_at > gh_lookup.posts_covered_from", "")


# Those of SQL are in tests/mutation. Each bug has the first of the seeds that are tried to find it; a seed's scenario
# changes with the generator.
INJECTED_BUGS: Mapping[str, tuple[InjectBug, int]] = {
    "dropped page": (_dropped_page, 0),
    "tombstones after a partial scan": (_tombstones_after_a_partial_scan, 4),
    "retries too early": (_retries_too_early, 2),
    "forgets cooldowns": (_forgets_cooldowns, 2),
    "scans expired accounts": (_scans_expired, 6),
    "scans again what was complete": (_scans_again, 1),
    "an unproved order": (_unproved, 1),
    "recent scans have seen everything": (_seen_by_recent_scans, 3),
    "one scan removes": (_one_scan_removes, 0),
    "children that change places": (_children_without_places, 26),
    "seen items are forgotten": (_forgotten_when_merged, 5),
    "checkpoint before rows": (_checkpoint_before_rows, 0),
    "cleared before it is merged": (_cleared_before_it_is_merged, 1),
    "scans are merged together": (_out_of_order, 7),
    "the old snapshot is deleted first": (_old_snapshot_away_first, 148),
}

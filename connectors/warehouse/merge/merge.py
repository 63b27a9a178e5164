"""Merges a batch of landed frames into rows in one transaction; rows are never Python objects."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from connectors.warehouse.ingest.landing.frames import Frame
from connectors.warehouse.merge import steps
from connectors.warehouse.merge.account_removal import mark_accounts_removed
from connectors.warehouse.merge.merge_batch import MediaItems, MergeBatch
from connectors.warehouse.merge.quarantine import collect_rejected
from connectors.warehouse.merge.removal import mark_removed
from connectors.warehouse.merge.run_counts import MergedRelations, MergeStats, count_changes
from connectors.warehouse.runs.closed_scans import close_scans
from connectors.warehouse.runs.service import bind_new_warehouse
from connectors.warehouse.storage.appending import append, as_json, rows_sql, types_of
from connectors.warehouse.storage.connection import Connection
from models.checkpoint import Checkpoint, ScanState
from models.page_commit import StagedPage
from models.tables import core_outcomes, ops_checkpoints, ops_cooldowns

if TYPE_CHECKING:
    from connectors.warehouse.ingest.records import Records
    from connectors.warehouse.ingest.split import Page

_OUTCOMES = f"""
INSERT INTO core.run_outcomes BY NAME
SELECT * RENAME (kind AS outcome) FROM ({rows_sql(types_of(core_outcomes, outcome="kind"))})
"""  # noqa: S608 - declared names

_LANDED = {"seq": "BIGINT", "began_seq": "BIGINT"}
_CHECKPOINT = {name: type_ for name, type_ in types_of(ops_checkpoints).items() if name not in _LANDED}

# The last checkpoints of the partitions that have one in this batch.
_LAST_CHECKPOINTS = f"""
CREATE OR REPLACE TEMP TABLE last_checkpoints AS
SELECT l.* REPLACE (coalesce(c.began_seq, l.began_seq) AS began_seq)
FROM ({rows_sql({**_LANDED, "checkpoint": _CHECKPOINT})}) AS l
LEFT JOIN ops.checkpoints AS c USING (resource, account_id, surface, run_kind, scan_id)
"""  # noqa: S608 - declared names
_STORE_CHECKPOINTS = (
    """
DELETE FROM ops.checkpoints AS c USING last_checkpoints AS l
WHERE c.resource = l.resource AND c.account_id = l.account_id AND c.surface = l.surface AND c.run_kind = l.run_kind
""",
    "INSERT INTO ops.checkpoints BY NAME FROM last_checkpoints",
)

# Closed scans: full ones, and recent ones, which cover only items published after `covered_from`. A scan is ignored if
# another one of its partition was closed after it began: its first pages are older than the other scan's result, so it
# can neither prove that an item is missing nor that it is present. Landing numbers decide the order, because a clock
# may have been wrong.
_FINISHED = """
WITH completed AS (FROM core.completed_scans SEMI JOIN last_checkpoints USING (resource, account_id, surface))
SELECT
    c.resource, c.account_id, c.surface, c.scan_id, c.run_id, c.started_at, c.updated_at AS complete_at, c.began_seq,
    c.seq, false AS has_rejected, w.removals_undecided_since AS undecided_before,
    c.state = 'recent' AS is_recent, if(c.state = 'recent', c.read_to, NULL) AS covered_from,
    {{
        'pages': c.pages, 'items': c.items, 'broken_by': c.order_broken_by, 'read_to': c.read_to,
        'full_share': c.full_share
    }} AS latest,
    {{
        'scan_id': w.scan_id, 'complete_at': w.complete_at, 'pages': w.pages, 'items': w.items,
        'item_order': w.item_order, 'broken_by': w.order_broken_by, 'proofs': w.order_proofs,
        'full_share': w.full_share
    }} AS before
FROM last_checkpoints AS c
LEFT JOIN completed AS w USING (resource, account_id, surface)
WHERE (c.state = 'complete' OR (c.state = 'recent' AND w.complete_at IS NOT NULL))
  AND coalesce(w.seq <= c.began_seq, true)
"""

# Scans of media with a rejected record, which may be any of the items that the scan seems to miss.
_REJECTED_NOW = """
SELECT scan_id FROM {sightings} WHERE media_id IS NULL
UNION
SELECT scan_id FROM pages SEMI JOIN unreadable USING (seq) WHERE resource = 'media'
UNION
"""
_REJECTED_BEFORE = "SELECT scan_id FROM ops.seen WHERE media_id = ''"
_HAS_REJECTED = "UPDATE finished SET has_rejected = true WHERE scan_id IN (FROM rejecting)"
_IS_ANY_REJECTING = "SELECT EXISTS (FROM ops.seen WHERE media_id = '')"

# An earlier batch may have received the field later.
_UNKNOWN_FIELDS = (
    """
UPDATE core.fields SET first_seen_at = u.first_seen_at FROM unknown_fields AS u
WHERE fields.resource = u.resource AND fields.path = u.path AND u.first_seen_at < fields.first_seen_at
""",
    """
INSERT INTO core.fields BY NAME
FROM unknown_fields ANTI JOIN core.fields AS known USING (resource, path)
""",
)

# The items that an unfinished scan has seen are stored: at its end, when its pages are deleted, they are needed to find
# the items that it missed.
_REMEMBER = """
INSERT INTO ops.seen
SELECT DISTINCT s.scan_id, s.account_id, s.surface, s.media_id
FROM {sightings} AS s
JOIN last_checkpoints AS c USING (scan_id)
WHERE c.state = 'scanning' AND s.media_id IS NOT NULL
"""
_REMEMBER_REJECTING = """
INSERT INTO ops.seen
SELECT c.scan_id, c.account_id, c.surface, ''
FROM rejecting JOIN last_checkpoints AS c USING (scan_id)
ANTI JOIN (FROM ops.seen WHERE media_id = '') USING (scan_id)
WHERE c.state = 'scanning'
"""
_FORGET = "DELETE FROM ops.seen WHERE scan_id NOT IN (SELECT scan_id FROM ops.checkpoints WHERE state = 'scanning')"


@dataclass(frozen=True, slots=True)
class _LastCheckpoint:
    """A checkpoint with its landing number, and that of its scan's first page, if that is in the batch."""

    seq: int
    began_seq: int | None
    checkpoint: Checkpoint


def _last_checkpoints(frames: Sequence[Frame]) -> list[_LastCheckpoint]:
    """Return the last checkpoint of each partition and run kind."""
    began: dict[str, int] = {}
    last: dict[object, tuple[int, Checkpoint]] = {}
    for seq, commit, _ in frames:
        if (checkpoint := commit.checkpoint) is not None:
            if checkpoint.pages <= 1:
                began.setdefault(checkpoint.scan_id, seq)
            last[checkpoint.partition, checkpoint.run_kind] = seq, checkpoint
    return [_LastCheckpoint(seq, began.get(checkpoint.scan_id), checkpoint) for seq, checkpoint in last.values()]


class _Pages(NamedTuple):
    """The pages of a batch in the order of landing, with their landing numbers, and the bodies that can be parsed."""

    pages: list[tuple[int, StagedPage]]
    of_accounts: "list[Page]"
    of_media: "list[Page]"


def _pages(frames: Sequence[Frame]) -> _Pages:
    pages = _Pages([], [], [])
    for seq, commit, body in frames:
        if commit.page is not None:
            pages.pages.append((seq, commit.page))
            if not body:
                continue
            if commit.page.partition.resource == "media":
                pages.of_media.append((seq, body))
            else:
                # A view would keep the whole segment in memory until the end of the merge.
                pages.of_accounts.append((seq, bytes(body)))
    return pages


def merge(connection: Connection, frames: Sequence[Frame]) -> MergeStats:
    """Merge a batch of frames (see `batches_of`) in the open transaction; return the counts of changes.

    The resulting rows do not depend on how the frames are divided into batches.
    """
    db = connection.db
    if outcomes := [outcome for frame in frames for outcome in frame.commit.outcomes]:
        db.execute(_OUTCOMES, [as_json(outcomes)])
    append(connection, ops_cooldowns, [frame.commit.cooldown for frame in frames if frame.commit.cooldown])
    batch = MergeBatch(connection)
    last, pages = _last_checkpoints(frames), _pages(frames)
    # Frees the segments, of which the bodies are views, once the media are decoded.
    del frames
    if last:
        db.execute(_LAST_CHECKPOINTS, [as_json(last)])
    counts = _merge_pages(batch, pages, [one.checkpoint for one in last]) if pages.pages else MergeStats()
    if last:
        batch.run(*_STORE_CHECKPOINTS, _FORGET, "DROP TABLE temp.last_checkpoints")
    batch.release()
    return counts


def _merge_pages(batch: MergeBatch, pages: _Pages, last: Sequence[Checkpoint]) -> MergeStats:
    # Imported here, on the merging thread while pages arrive: pyarrow takes longer to import than a request, and
    # commands that merge nothing do not need it.
    from connectors.warehouse.ingest.page_columns import table_of_pages  # noqa: PLC0415
    from connectors.warehouse.ingest.records import AccountRow, read_records, table_of  # noqa: PLC0415
    from connectors.warehouse.merge.media import MediaMerge  # noqa: PLC0415

    table = table_of_pages(pages.pages)
    batch.copy("pages", table)
    bind_new_warehouse(batch.db)
    media = MediaMerge(batch, table)
    found = read_records(pages.pages, pages.of_accounts, media.read(pages.of_media))
    has_rejected = bool(found.rejected or found.unreadable or media.is_any_rejected)
    _store_records(batch, found, has_rejected=has_rejected)
    closed = {checkpoint.partition.resource for checkpoint in last if checkpoint.is_closed}
    if closed:
        batch.table("finished", _FINISHED)
    items = media.items
    is_any_rejecting = _find_rejecting(batch, items, closed, has_rejected=has_rejected)
    if pages.of_accounts:
        batch.copy("account_items", table_of(AccountRow, found.accounts))
        steps.run(batch.db, "accounts")
    if "accounts" in closed:
        mark_accounts_removed(batch.connection)
    to_write = media.write()
    quarantined = collect_rejected(batch, media.mapping, items) if has_rejected else None
    missed = None if items is None else mark_removed(batch, items, is_closed="media" in closed)
    merged = MergedRelations(
        accounts="account_items" if pages.of_accounts else None,
        rejected_records="rejected_records" if found.rejected else None,
        items=items,
        to_write=to_write,
        missed=missed,
        gone_accounts="missed_accounts" if "accounts" in closed else None,
        quarantined=quarantined,
    )
    counts = count_changes(batch, merged)
    if items is not None and any(checkpoint.state is ScanState.SCANNING for checkpoint in last):
        batch.run(_REMEMBER, sightings=items.sightings)
        if is_any_rejecting:
            batch.run(_REMEMBER_REJECTING)
    if closed:
        close_scans(batch.db, missed)
    return counts


def _store_records(batch: MergeBatch, found: "Records", *, has_rejected: bool) -> None:
    from connectors.warehouse.ingest.records import FieldRow, RejectedRow, UnreadableRow, table_of  # noqa: PLC0415

    if has_rejected:
        batch.copy("rejected_records", table_of(RejectedRow, found.rejected))
        batch.copy("unreadable", table_of(UnreadableRow, found.unreadable))
    if found.unknown_fields:
        batch.copy("unknown_fields", table_of(FieldRow, found.unknown_fields))
        batch.run(*_UNKNOWN_FIELDS)


def _find_rejecting(
    batch: MergeBatch, items: MediaItems | None, closed: Collection[str], *, has_rejected: bool
) -> bool:
    """Find the rejecting scans of media, and mark them in `finished`; return whether there may be any."""
    if items is None or not (has_rejected or ("media" in closed and batch.value(_IS_ANY_REJECTING))):
        return False
    of_batch = _REJECTED_NOW if has_rejected else ""
    batch.table("rejecting", f"{of_batch}{_REJECTED_BEFORE}", sightings=items.sightings)
    if closed:
        batch.run(_HAS_REJECTED)
    return True

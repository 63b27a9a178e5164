"""Merges staged pages into rows in one transaction; rows are never Python objects."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from duckdb import DuckDBPyConnection

from connectors.warehouse.ingest.landing.page_commit import Bodies
from connectors.warehouse.merge.accounts import merge_accounts
from connectors.warehouse.merge.merge_batch import MergeBatch
from connectors.warehouse.merge.quarantine import collect_rejected
from connectors.warehouse.merge.removal import mark_removed
from connectors.warehouse.merge.run_counts import MergedRelations, MergeStats, count_slice
from connectors.warehouse.runs.closed_scans import close_scans
from connectors.warehouse.runs.service import bind_new_warehouse
from connectors.warehouse.storage.connection import Connection, value

if TYPE_CHECKING:
    from connectors.warehouse.ingest.split import Page
    from connectors.warehouse.merge.media import MediaMerge

# A merge is divided into slices: the removals of a finished scan must be decided before pages of the partition's next
# scan are merged, because afterwards the items that it missed could not be found. A slice ends before a checkpoint that
# follows the end of its partition's scan. The end of a scan lands with its last page, and is processed with it.
_LAST_BEFORE_NEXT_SCAN = """
WITH ends AS (
    SELECT resource, account_id, surface, seq FROM ops.checkpoints SEMI JOIN ops.staging USING (seq)
    WHERE state IN ('complete', 'recent')
)
SELECT min(c.seq) - 1
FROM ops.checkpoints AS c JOIN ends AS e USING (resource, account_id, surface)
WHERE c.seq > e.seq
"""

_EVERYTHING = 2**63 - 1

# The end of an abandoned scan lands without a page; the merge records where the scan began.
_IS_ANY_LANDED = """
SELECT EXISTS (FROM ops.staging) OR EXISTS (FROM ops.checkpoints WHERE state = 'abandoned' AND began_seq IS NULL)
"""

_PAGES = "SELECT seq, resource, encode(body) FROM ops.staging ORDER BY seq"

# The landing of each scan's first page.
_BEGAN = """
SELECT scan_id, coalesce(min(began_seq), min(seq) FILTER (pages <= 1)) AS began_seq
FROM ops.checkpoints SEMI JOIN (
    SELECT scan_id FROM ops.staging WHERE seq <= {end}
    UNION ALL SELECT scan_id FROM {last_checkpoints} WHERE state = 'abandoned'
) AS s USING (scan_id)
GROUP BY scan_id
"""

# The last checkpoints of the partitions that have pages in this slice, or a scan that was abandoned without a page. All
# other partitions have one checkpoint of each kind of run already.
_LAST_CHECKPOINTS = """
FROM ops.checkpoints
SEMI JOIN (
    SELECT resource, account_id, surface FROM ops.staging WHERE seq <= {end}
    UNION ALL
    SELECT resource, account_id, surface FROM ops.checkpoints WHERE state = 'abandoned' AND began_seq IS NULL
) AS landed USING (resource, account_id, surface)
WHERE seq <= {end}
QUALIFY row_number() OVER (PARTITION BY resource, account_id, surface, run_kind ORDER BY seq DESC) = 1
"""

# Closed scans: full ones, and recent ones, which cover only items published after `covered_from`. A scan is ignored if
# another one of its partition was closed after it began: its first pages are older than the other scan's result, so it
# can neither prove that an item is missing nor that it is present. Landing numbers decide the order, because a clock
# may have been wrong.
_FINISHED = """
WITH completed AS (FROM core.completed_scans SEMI JOIN {last_checkpoints} USING (resource, account_id, surface))
SELECT
    c.resource, c.account_id, c.surface, c.scan_id, c.run_id, c.started_at, c.updated_at AS complete_at, b.began_seq,
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
FROM {last_checkpoints} AS c
SEMI JOIN ops.staging AS s USING (seq)
JOIN {began} AS b USING (scan_id)
LEFT JOIN completed AS w USING (resource, account_id, surface)
WHERE (c.state = 'complete' OR (c.state = 'recent' AND w.complete_at IS NOT NULL))
  AND coalesce(w.seq <= b.began_seq, true)
"""

# Scans of media with a rejected record, which may be any of the items that the scan seems to miss.
_REJECTING = """
SELECT scan_id FROM {sightings} WHERE media_id IS NULL
UNION
SELECT scan_id FROM ops.staging SEMI JOIN {unreadable} USING (seq) WHERE resource = 'media' AND seq <= {end}
UNION
SELECT scan_id FROM ops.seen WHERE media_id = ''
"""
_HAS_REJECTED = "UPDATE {finished} SET has_rejected = true WHERE scan_id IN (FROM {rejecting})"
_IS_ANY_REJECTING = "SELECT EXISTS (FROM ops.seen WHERE media_id = '')"

_UNKNOWN_FIELDS = """
INSERT INTO core.fields (resource, path, first_seen_at)
WITH met AS (
    SELECT
        CASE WHEN f.resource = 'media' THEN 'media_page' WHEN p.path LIKE 'items[].%' THEN 'account'
             ELSE 'account_page' END AS resource,
        CASE WHEN f.resource = 'accounts' THEN regexp_replace(p.path, '^items\\[\\]\\.', '') ELSE p.path END AS path,
        f.received_at, f.seq
    FROM {unknown_paths} AS p JOIN ops.staging AS f USING (seq) WHERE seq <= {end}
)
SELECT resource, path, arg_min(received_at, seq) FROM met ANTI JOIN core.fields AS known USING (resource, path)
GROUP BY resource, path
"""

_IS_ANY_UNFINISHED = """
SELECT EXISTS (SELECT 1 FROM {last_checkpoints} WHERE state = 'scanning' UNION ALL SELECT 1 FROM ops.seen)
"""

_DELETE_SUPERSEDED = """
DELETE FROM ops.checkpoints AS c USING {last_checkpoints} AS l
WHERE c.resource = l.resource AND c.account_id = l.account_id AND c.surface = l.surface AND c.run_kind = l.run_kind
    AND c.seq < l.seq
"""

# The items that an unfinished scan has seen are stored: at its end, when its pages are deleted, they are needed to find
# the items that it missed.
_REMEMBER = (
    """
DELETE FROM ops.seen
WHERE scan_id NOT IN (
    SELECT scan_id FROM ops.checkpoints WHERE state = 'scanning' AND seq <= {end}
)
""",
    """
INSERT INTO ops.seen
SELECT DISTINCT s.scan_id, s.account_id, s.surface, s.media_id
FROM {sightings} AS s
JOIN {last_checkpoints} AS c USING (scan_id)
WHERE c.state = 'scanning' AND s.media_id IS NOT NULL
""",
)
_REMEMBER_REJECTING = """
INSERT INTO ops.seen
SELECT c.scan_id, c.account_id, c.surface, ''
FROM {rejecting} JOIN {last_checkpoints} AS c USING (scan_id)
ANTI JOIN (FROM ops.seen WHERE media_id = '') USING (scan_id)
WHERE c.state = 'scanning'
"""

_CLOSE = (
    "DELETE FROM ops.staging WHERE seq <= {end}",
    """
UPDATE ops.checkpoints SET began_seq = b.began_seq FROM {began} AS b
WHERE checkpoints.scan_id = b.scan_id AND checkpoints.began_seq IS NULL
    AND checkpoints.state IN ('scanning', 'abandoned') AND checkpoints.seq <= {end}
""",
)


@dataclass(frozen=True, slots=True)
class _Contents:
    """What the pages of a merge contain besides media. Statements about what they do not contain are skipped.

    The first four are relations: the listed accounts, rejected records, paths of unknown fields, and pages that cannot
    be parsed. These go to quarantine as a whole, because otherwise they would block every later merge.

    Rejected are records, items and whole pages. A rejecting scan has a rejected media item, also of an earlier merge.
    """

    accounts: str
    rejected: str
    unknown_paths: str
    unreadable: str
    has_catalogue_pages: bool
    has_rejected: bool
    has_rejecting_scans: bool
    has_unknown_fields: bool


def merge(connection: Connection, bodies: Bodies | None = None) -> MergeStats:
    """Merge all staged pages in the open transaction, and delete them from staging; return the counts of changes.

    `bodies` are the bodies that are not in the table, by landing number; they are removed from it.

    The resulting rows do not depend on how the pages are divided into merges.
    """
    db = connection.db
    if not value(db, _IS_ANY_LANDED):
        return MergeStats()
    # Imported here, on the merging thread while pages arrive: pyarrow takes longer to import than a request, and
    # commands that merge nothing do not need it.
    from connectors.warehouse.merge.media import MediaMerge  # noqa: PLC0415

    bind_new_warehouse(db)
    batch = MergeBatch(connection)
    pages = _pages(db, {} if bodies is None else bodies)
    media = MediaMerge(batch)
    unreadable_media = media.read(pages.pop("media", []))
    contents = _contents(batch, pages["accounts"], unreadable_media, is_any_item_rejected=media.is_any_rejected)
    counts = MergeStats()
    begin = 0
    while (end := value(db, _LAST_BEFORE_NEXT_SCAN)) is not None:
        counts += _merge_slice(batch, media, contents, begin, int(end))
        begin = int(end)
    counts += _merge_slice(batch, media, contents, begin, _EVERYTHING)
    batch.release()
    return counts


def _pages(db: DuckDBPyConnection, bodies: Bodies) -> "dict[str, list[Page]]":
    """Return the staged pages with a body by resource, in the order of landing; removes them from `bodies`."""
    found: dict[str, list[Page]] = defaultdict(list)
    for seq, resource, staged in db.execute(_PAGES).fetchall():
        if body := staged or bodies.pop(seq, b""):
            # A view would keep the whole segment in memory until the end of the merge.
            found[resource].append((seq, body if resource == "media" else bytes(body)))
    return found


def _contents(
    batch: MergeBatch,
    account_pages: "Sequence[Page]",
    unreadable_media: "Sequence[Page]",
    *,
    is_any_item_rejected: bool,
) -> _Contents:
    from connectors.warehouse.ingest import records  # noqa: PLC0415

    found = records.read_records(batch.db, account_pages, unreadable_media)

    def create(name: str, rows: Sequence[NamedTuple], row_class: type[NamedTuple]) -> str:
        # Not a registered Arrow table, because DuckDB takes 0.7 ms each time it reads one.
        batch.empty(name, records.columns_of(row_class))
        if rows:
            batch.db.register("records", records.table_of(rows))
            batch.run("INSERT INTO {name} FROM records", name=name)
            batch.db.unregister("records")
        return name

    is_any_rejected = bool(found.rejected or found.unreadable) or is_any_item_rejected
    return _Contents(
        create("account_items", found.accounts, records.AccountRow),
        create("rejected_records", found.rejected, records.RejectedRow),
        create("unknown_paths", found.unknown_paths, records.PathRow),
        create("unreadable", found.unreadable, records.UnreadableRow),
        has_catalogue_pages=bool(account_pages),
        has_rejected=is_any_rejected,
        has_rejecting_scans=is_any_rejected or bool(batch.value(_IS_ANY_REJECTING)),
        has_unknown_fields=bool(found.unknown_paths),
    )


def _merge_slice(batch: MergeBatch, media: "MediaMerge", contents: _Contents, begin: int, end: int) -> MergeStats:
    """Merge the pages with landing numbers from `begin` (exclusive) to `end` (inclusive)."""
    last_checkpoints = batch.table("last_checkpoints", _LAST_CHECKPOINTS, end=end)
    began = batch.table("began", _BEGAN, end=end, last_checkpoints=last_checkpoints)
    finished = batch.table("finished", _FINISHED, last_checkpoints=last_checkpoints, began=began)
    items = media.in_slice(begin, end)
    rejecting = None
    if contents.has_rejecting_scans:
        rejecting = batch.table(
            "rejecting", _REJECTING, sightings=items.sightings, unreadable=contents.unreadable, end=end
        )
        batch.run(_HAS_REJECTED, finished=finished, rejecting=rejecting)
    gone_accounts = merge_accounts(
        batch,
        contents.accounts,
        contents.rejected,
        finished,
        end,
        are_listed=contents.has_catalogue_pages,
        are_rejected=contents.has_rejected,
    )
    written = media.merge_slice(items, begin, end)
    quarantined = collect_rejected(
        batch,
        media.mapping,
        contents.rejected,
        contents.unreadable,
        items,
        end,
        is_any_rejected=contents.has_rejected,
    )
    if contents.has_unknown_fields:
        batch.run(_UNKNOWN_FIELDS, unknown_paths=contents.unknown_paths, end=end)
    missed = mark_removed(batch, finished, items.sightings, items.stored, is_first=begin == 0)
    merged = MergedRelations(
        accounts=contents.accounts,
        rejected_records=contents.rejected,
        items=items,
        to_write=written,
        missed=missed,
        gone_accounts=gone_accounts,
        quarantined=quarantined,
    )
    counts = count_slice(batch, merged, end)
    batch.run(_DELETE_SUPERSEDED, last_checkpoints=last_checkpoints)
    if batch.value(_IS_ANY_UNFINISHED, last_checkpoints=last_checkpoints):
        batch.run(*_REMEMBER, sightings=items.sightings, last_checkpoints=last_checkpoints, end=end)
    if rejecting is not None:
        batch.run(_REMEMBER_REJECTING, rejecting=rejecting, last_checkpoints=last_checkpoints)
    close_scans(batch.db, finished, missed)
    batch.run(*_CLOSE, began=began, end=end)
    return counts

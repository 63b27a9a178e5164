"""Merges staged pages into rows in one transaction; rows are never Python objects."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duckdb import DuckDBPyConnection

from connectors.warehouse.ingest.landing.page_commit import Bodies, TypedPart
from connectors.warehouse.merge.accounts import merge_accounts
from connectors.warehouse.merge.quarantine import collect_rejected
from connectors.warehouse.merge.removal import mark_gone
from connectors.warehouse.merge.run_counts import MergeStats, count_slice
from connectors.warehouse.runs.closed_scans import CLOSE_SCANS
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

# Pages that cannot be parsed. They go to quarantine as a whole, because otherwise they would block every later merge.
_UNREADABLE = "CREATE OR REPLACE TEMP TABLE unreadable (seq BIGINT, body VARCHAR)"

# The end of an abandoned scan lands without a page; the merge records where the scan began.
_IS_ANY_LANDED = """
SELECT EXISTS (FROM ops.staging) OR EXISTS (FROM ops.checkpoints WHERE state = 'abandoned' AND began_seq IS NULL)
"""

_PAGES = "SELECT seq, resource, encode(body) FROM ops.staging ORDER BY seq"

# The landing of each scan's first page. Scans from before this was recorded get 0, before all other landings.
_BEGAN = """
CREATE OR REPLACE TEMP TABLE began AS
SELECT scan_id, coalesce(min(began_seq), min(seq) FILTER (pages <= 1), 0) AS began_seq
FROM ops.checkpoints SEMI JOIN (
    SELECT scan_id FROM ops.staging WHERE seq <= getvariable('slice_end')
    UNION ALL SELECT scan_id FROM last_checkpoints WHERE state = 'abandoned'
) AS s USING (scan_id)
GROUP BY scan_id
"""

# The last checkpoints of the partitions that have pages in this slice, or a scan that was abandoned without a page. All
# other partitions have one checkpoint of each kind of run already.
_LAST_CHECKPOINTS = """
CREATE OR REPLACE TEMP TABLE last_checkpoints AS
FROM ops.checkpoints
SEMI JOIN (
    SELECT resource, account_id, surface FROM ops.staging WHERE seq <= getvariable('slice_end')
    UNION ALL
    SELECT resource, account_id, surface FROM ops.checkpoints WHERE state = 'abandoned' AND began_seq IS NULL
) AS landed USING (resource, account_id, surface)
WHERE seq <= getvariable('slice_end')
QUALIFY row_number() OVER (PARTITION BY resource, account_id, surface, run_kind ORDER BY seq DESC) = 1
"""

# Closed scans: full ones, and recent ones, which cover only items published after `covered_from`. A scan is ignored if
# another one of its partition was closed after it began: its first pages are older than the other scan's result, so it
# can neither prove that an item is missing nor that it is present. Landing numbers decide the order, because a clock
# may have been wrong.
_FINISHED = """
CREATE OR REPLACE TEMP TABLE finished AS
WITH completed AS (FROM core.completed_scans SEMI JOIN last_checkpoints USING (resource, account_id, surface))
SELECT
    c.resource, c.account_id, c.surface, c.scan_id, c.run_id, c.started_at, c.updated_at AS complete_at, b.began_seq,
    c.seq, false AS has_rejected, w.removals_undecided_since AS undecided_before,
    c.state = 'recent' AS is_recent, if(c.state = 'recent', c.read_to, NULL) AS covered_from,
    {
        'pages': c.pages, 'items': c.items, 'broken_by': c.order_broken_by, 'read_to': c.read_to,
        'full_share': c.full_share
    } AS latest,
    {
        'scan_id': w.scan_id, 'complete_at': w.complete_at, 'pages': w.pages, 'items': w.items,
        'item_order': w.item_order, 'broken_by': w.order_broken_by, 'proofs': w.order_proofs,
        'full_share': w.full_share
    } AS before
FROM last_checkpoints AS c
SEMI JOIN ops.staging AS s USING (seq)
JOIN began AS b USING (scan_id)
LEFT JOIN completed AS w USING (resource, account_id, surface)
WHERE (c.state = 'complete' OR (c.state = 'recent' AND w.complete_at IS NOT NULL))
  AND coalesce(w.seq <= b.began_seq, true)
"""

# Scans of media with a rejected record, which may be any of the items that the scan seems to miss.
_REJECTING = (
    """
CREATE OR REPLACE TEMP TABLE rejecting AS
SELECT scan_id FROM media_sightings WHERE media_id IS NULL
UNION
SELECT scan_id FROM ops.staging SEMI JOIN unreadable USING (seq)
WHERE resource = 'media' AND seq <= getvariable('slice_end')
UNION
SELECT scan_id FROM ops.seen WHERE media_id = ''
""",
    "UPDATE finished SET has_rejected = true WHERE scan_id IN (FROM rejecting)",
)
_IS_ANY_REJECTING = "SELECT EXISTS (FROM ops.seen WHERE media_id = '')"

_UNKNOWN_FIELDS = """
INSERT INTO core.fields (resource, path, first_seen_at)
WITH met AS (
    SELECT
        CASE WHEN f.resource = 'media' THEN 'media_page' WHEN p.path LIKE 'items[].%' THEN 'account'
             ELSE 'account_page' END AS resource,
        CASE WHEN f.resource = 'accounts' THEN regexp_replace(p.path, '^items\\[\\]\\.', '') ELSE p.path END AS path,
        f.received_at, f.seq
    FROM unknown_paths AS p JOIN ops.staging AS f USING (seq) WHERE seq <= getvariable('slice_end')
)
SELECT resource, path, arg_min(received_at, seq) FROM met ANTI JOIN core.fields AS known USING (resource, path)
GROUP BY resource, path
"""

_IS_ANY_UNFINISHED = """
SELECT EXISTS (SELECT 1 FROM last_checkpoints WHERE state = 'scanning' UNION ALL SELECT 1 FROM ops.seen)
"""

_DELETE_SUPERSEDED = """
DELETE FROM ops.checkpoints AS c USING last_checkpoints AS l
WHERE c.resource = l.resource AND c.account_id = l.account_id AND c.surface = l.surface AND c.run_kind = l.run_kind
    AND c.seq < l.seq
"""

# The items that an unfinished scan has seen are stored: at its end, when its pages are deleted, they are needed to find
# the items that it missed.
_REMEMBER = (
    """
DELETE FROM ops.seen
WHERE scan_id NOT IN (
    SELECT scan_id FROM ops.checkpoints WHERE state = 'scanning' AND seq <= getvariable('slice_end')
)
""",
    """
INSERT INTO ops.seen
SELECT DISTINCT s.scan_id, s.account_id, s.surface, s.media_id
FROM media_sightings AS s
JOIN last_checkpoints AS c USING (scan_id)
WHERE c.state = 'scanning' AND s.media_id IS NOT NULL
""",
)
_REMEMBER_REJECTING = """
INSERT INTO ops.seen
SELECT c.scan_id, c.account_id, c.surface, ''
FROM rejecting JOIN last_checkpoints AS c USING (scan_id) ANTI JOIN (FROM ops.seen WHERE media_id = '') USING (scan_id)
WHERE c.state = 'scanning'
"""

_CLOSE = (
    *CLOSE_SCANS,
    "DELETE FROM ops.staging WHERE seq <= getvariable('slice_end')",
    """
UPDATE ops.checkpoints SET began_seq = b.began_seq FROM began AS b
WHERE checkpoints.scan_id = b.scan_id AND checkpoints.began_seq IS NULL
    AND checkpoints.state IN ('scanning', 'abandoned') AND checkpoints.seq <= getvariable('slice_end')
""",
)


@dataclass(frozen=True, slots=True)
class _Contents:
    """What the pages of a merge contain. Statements about what they do not contain are skipped.

    Rejected are records, items and whole pages. A rejecting scan has a rejected media item, also of an earlier merge.
    """

    has_catalogue_pages: bool
    has_rejected: bool
    has_rejecting_scans: bool
    has_unknown_fields: bool


def merge(connection: Connection, bodies: Bodies | None = None, parts: Sequence[TypedPart] = ()) -> MergeStats:
    """Merge all staged pages in the open transaction, and delete them from staging; return the counts of changes.

    `bodies` are the bodies that are not in the table, by landing number; they are removed from it. `parts` have the
    items of the pages that have no body.

    The resulting rows do not depend on how the pages are divided into merges.
    """
    db = connection.db
    if not value(db, _IS_ANY_LANDED):
        return MergeStats()
    # Imported here, on the merging thread while pages arrive: pyarrow takes longer to import than a request, and
    # commands that merge nothing do not need it.
    from connectors.warehouse.ingest.records import create_records  # noqa: PLC0415
    from connectors.warehouse.merge.media import MediaMerge  # noqa: PLC0415

    bind_new_warehouse(db)
    db.execute(_UNREADABLE)
    pages = _pages(db, {} if bodies is None else bodies)
    media = MediaMerge(connection)
    unreadable_media = media.read(pages.pop("media", []), parts)
    records = create_records(db, pages["accounts"], unreadable_media)
    if records.unreadable:
        texts = [(seq, str(body, "utf-8")) for seq, body in records.unreadable]
        db.executemany("INSERT INTO unreadable VALUES (?, ?)", texts)
    is_any_rejected = records.are_rejected or bool(records.unreadable) or media.is_any_rejected
    contents = _Contents(
        has_catalogue_pages=bool(pages["accounts"]),
        has_rejected=is_any_rejected,
        has_rejecting_scans=is_any_rejected or bool(value(db, _IS_ANY_REJECTING)),
        has_unknown_fields=records.are_unknown,
    )
    counts = MergeStats()
    begin = 0
    while (end := value(db, _LAST_BEFORE_NEXT_SCAN)) is not None:
        counts += _merge_slice(connection, media, contents, begin, int(end))
        begin = int(end)
    counts += _merge_slice(connection, media, contents, begin, _EVERYTHING)
    media.release()
    _forget(db)
    return counts


def _pages(db: DuckDBPyConnection, bodies: Bodies) -> "dict[str, list[Page]]":
    """Return the staged pages with a body by resource, in the order of landing; removes them from `bodies`."""
    found: dict[str, list[Page]] = defaultdict(list)
    for seq, resource, staged in db.execute(_PAGES).fetchall():
        if body := staged or bodies.pop(seq, b""):
            # A view would keep the whole segment in memory until the end of the merge.
            found[resource].append((seq, body if resource == "media" else bytes(body)))
    return found


def _forget(db: DuckDBPyConnection) -> None:
    # Temporary tables are in memory, and contain the pages and items of the last slice.
    views = "SELECT 'VIEW', view_name FROM duckdb_views() WHERE temporary AND NOT internal"
    tables = "SELECT 'TABLE', table_name FROM duckdb_tables() WHERE temporary"
    left = db.execute(f"{views} UNION ALL {tables}").fetchall()
    # In one call: one by one, such small statements take longer.
    db.execute(";\n".join(f"DROP {kind} temp.{name}" for kind, name in left))


def _merge_slice(connection: Connection, media: "MediaMerge", contents: _Contents, begin: int, end: int) -> MergeStats:
    db = connection.db
    db.execute(f"SET VARIABLE slice_begin = {begin}")
    db.execute(f"SET VARIABLE slice_end = {end}")
    for statement in (_LAST_CHECKPOINTS, _BEGAN, _FINISHED, *(_REJECTING if contents.has_rejecting_scans else ())):
        db.execute(statement)
    is_first = begin == 0
    merge_accounts(connection, are_listed=contents.has_catalogue_pages, are_rejected=contents.has_rejected)
    media.merge_slice(is_first=is_first)
    collect_rejected(connection, media.mapping, is_any_rejected=contents.has_rejected)
    if contents.has_unknown_fields:
        db.execute(_UNKNOWN_FIELDS)
    mark_gone(connection, is_first=is_first)
    counts = count_slice(connection)
    db.execute(_DELETE_SUPERSEDED)
    remember = _REMEMBER if value(db, _IS_ANY_UNFINISHED) else ()
    remember_rejecting = (_REMEMBER_REJECTING,) if contents.has_rejecting_scans else ()
    for statement in (*remember, *remember_rejecting, *_CLOSE):
        db.execute(statement)
    return counts

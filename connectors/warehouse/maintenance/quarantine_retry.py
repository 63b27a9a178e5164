"""Decodes quarantined media items again with the current mapping; those that now have an id become rows.

Rejected accounts are not decoded again, because every sync lists all accounts.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from connectors.warehouse.ingest.landing.page_commit import last_seq
from connectors.warehouse.merge.merge import merge
from connectors.warehouse.schema.field_registry import read_mapping
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.quoting import literal
from models.schema.mapping import Mapping

# The most bytes of payloads in one merge.
_BATCH_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that were received between two times, inclusive, in microseconds since 1970."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A planned retry: `records` of `items` media items will become rows; `outdated` records were deleted."""

    records: int
    items: int
    outdated: int
    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class StillRejected:
    """The number of records that remain in quarantine, for one reason."""

    resource: str
    reason: str
    records: int


def _id(index: int) -> str:
    # Objects, lists and empty text are not valid ids.
    return f"CASE WHEN left(ids[{index}], 1) NOT IN ('', '{{', '[') THEN ids[{index}] END"


def _media_id(mapping: Mapping) -> str:
    return f"coalesce({', '.join(_id(index) for index in range(1, len(mapping.media_id) + 1))})"


def _ids(mapping: Mapping) -> str:
    paths = ", ".join(map(literal, mapping.media_id))
    return f"CASE WHEN json_valid(payload) THEN json_extract_string(payload, [{paths}]::VARCHAR[]) END"


def _identify(kind: str, table: str, mapping: Mapping, columns: str, where: str = "true") -> tuple[str, str]:
    # Two statements: with the condition in the first one, DuckDB would parse each payload a dozen times.
    find = f"""
CREATE {kind} {table} AS
SELECT {columns}, {_media_id(mapping)} AS media_id
FROM (
    SELECT
        *, rowid AS record,
        {_ids(mapping)} AS ids
    FROM core.quarantine WHERE resource = 'media' AND position IS NOT NULL AND {where}
)
"""  # noqa: S608 - quoted paths
    return find, f"DELETE FROM {table} WHERE media_id IS NULL"  # noqa: S608


_OPEN_SCANS = """
SELECT account_id, surface, scan_id, updated_at FROM ops.checkpoints
WHERE resource = 'media'
QUALIFY row_number() OVER (PARTITION BY account_id, surface, run_kind ORDER BY seq DESC) = 1 AND state = 'scanning'
"""


# Without payloads, because the quarantine may be larger than memory.
_NARROW = "record, account_id, surface, seen_at, strlen(payload) AS size"

_PLANNED = f"""
CREATE TEMP TABLE retry_plan AS
WITH seen AS (
    SELECT s.account_id, s.surface, s.media_id, max(o.updated_at) AS updated_at
    FROM ops.seen AS s JOIN ({_OPEN_SCANS}) AS o USING (scan_id)
    GROUP BY ALL
),
known AS (
    SELECT
        m.account_id, m.surface, m.media_id,
        CASE
            WHEN m.removed_at IS NOT NULL THEN m.written_at
            ELSE greatest(
                coalesce(
                    p.last_seen_at,
                    greatest(
                        m.written_at, w.complete_at, CASE WHEN m.published_at > w.covered_from THEN w.recent_at END
                    )
                ),
                s.updated_at
            )
        END AS last_seen_at
    FROM core.media AS m
    LEFT JOIN core.completed_scans AS w
        ON w.resource = 'media' AND w.account_id = m.account_id AND w.surface = m.surface
    LEFT JOIN ops.missing AS p
        ON p.account_id = m.account_id AND p.surface = m.surface AND p.media_id = m.media_id
    LEFT JOIN seen AS s ON s.account_id = m.account_id AND s.surface = m.surface AND s.media_id = m.media_id
    SEMI JOIN retry_identified AS i
        ON i.account_id = m.account_id AND i.surface = m.surface AND i.media_id = m.media_id
)
SELECT i.*, coalesce(k.last_seen_at >= i.seen_at, false) AS outdated
FROM retry_identified AS i LEFT JOIN known AS k USING (account_id, surface, media_id)
"""  # noqa: S608 - constant names

_COUNT = """
SELECT
    count(*) FILTER (NOT outdated),
    count(DISTINCT (account_id, surface, media_id)) FILTER (NOT outdated),
    count(*) FILTER (outdated)
FROM retry_plan
"""

_SIZES = """
SELECT epoch_us(seen_at) AS instant, sum(size)::BIGINT AS size FROM retry_plan
WHERE NOT outdated GROUP BY ALL ORDER BY instant
"""

_DROP_OUTDATED = "DELETE FROM core.quarantine WHERE rowid IN (SELECT record FROM retry_plan WHERE outdated)"


# Staged in the order in which they were received, so that the last version of an item is merged last. They count as
# seen by each unfinished scan of the partition, which may have rejected them with the old mapping and would miss them.
# If there are two such scans, each gets a copy.
_STAGE = f"""
INSERT INTO ops.staging BY NAME
SELECT
    ? + row_number() OVER (ORDER BY r.seen_at, r.page, r.position, r.record, o.scan_id) AS seq,
    r.resource, r.account_id, r.surface, ? AS run_id, coalesce(o.scan_id, '') AS scan_id, r.page,
    r.seen_at AS received_at, r.correlation_id, '{{"items":[' || r.payload || ']}}' AS body
FROM temp.retried AS r
LEFT JOIN ({_OPEN_SCANS}) AS o USING (account_id, surface)
"""  # noqa: S608

# The pages and items were counted for the runs that landed them.
_NO_PAGES = "UPDATE core.run_counts SET pages = 0, items = 0 WHERE run_id = ?"

_LEAVE = "DELETE FROM core.quarantine WHERE rowid IN (SELECT record FROM temp.retried)"

# Complete scans after these records were received do not prove that the items still existed, because the items had no
# rows. They are entered as missing, last seen when the record was, until the next complete scan decides.
_DOUBT = """
INSERT INTO ops.missing BY NAME
SELECT
    r.account_id, r.surface, r.media_id, ?::TIMESTAMPTZ AS since, max(r.seen_at) AS last_seen_at, true AS needs_full
FROM temp.retried AS r
JOIN core.completed_scans AS w ON w.resource = 'media' AND w.account_id = r.account_id AND w.surface = r.surface
GROUP BY r.account_id, r.surface, r.media_id, w.complete_at
HAVING max(r.seen_at) < w.complete_at
"""

_STAY = """
SELECT resource, reason, count(*) AS records FROM core.quarantine GROUP BY ALL ORDER BY records DESC, resource, reason
"""


def _batches(sizes: Iterable[tuple[int, int]], most: int) -> tuple[Batch, ...]:
    # Batches are divided only between different times, so that versions of an item with the same time are compared.
    batches: list[Batch] = []
    held = 0
    for instant, size in sizes:
        if batches and held + size <= most:
            batches[-1] = Batch(batches[-1].first, instant)
            held += size
        else:
            batches.append(Batch(instant, instant))
            held = size
    return tuple(batches)


def prepare_retry(connection: Connection, *, batch_bytes: int = _BATCH_BYTES) -> Plan:
    """Find quarantined media items that have an id now, and delete outdated ones, in the open transaction.

    A record is outdated if its stored item was seen at the same time or later. All other records are in the batches of
    the plan.
    """
    run = connection.db.execute
    for statement in (*_identify("TEMP TABLE", "retry_identified", read_mapping(connection), _NARROW), _PLANNED):
        run(statement)
    records, items, outdated = run(_COUNT).fetchall()[0]
    batches = _batches(run(_SIZES).fetchall(), batch_bytes)
    run(_DROP_OUTDATED)
    run("DROP TABLE temp.retry_plan")
    run("DROP TABLE temp.retry_identified")
    return Plan(records, items, outdated, batches)


def retry(connection: Connection, batch: Batch, *, run_id: str, now: datetime) -> None:
    """Merge the records of a planned batch into rows and delete them from quarantine, in the open transaction.

    Changes are counted for the run `run_id`.

    The batches of a plan must be passed in order, without other merges in between.

    Raises ValueError if pages are staged: they landed before, so they must be merged first.
    """
    run = connection.db.execute
    if value(connection.db, "SELECT EXISTS (FROM ops.staging)"):
        message = "merge what is staged before a retry"
        raise ValueError(message)
    met = f"seen_at BETWEEN make_timestamptz({batch.first}) AND make_timestamptz({batch.last})"
    for statement in _identify("TEMP TABLE", "retried", read_mapping(connection), "* EXCLUDE (ids)", met):
        run(statement)
    last = last_seq(connection)
    run(_STAGE, [last, run_id])
    run(_LEAVE)
    merge(connection)
    # The next landings reuse these numbers; their scans must not take these rows for newer ones.
    run("UPDATE core.media SET written_seq = NULL WHERE written_seq > ?", [last])
    run(_NO_PAGES, [run_id])
    run(_DOUBT, [now])
    run("DROP TABLE temp.retried")


def staying(connection: Connection) -> tuple[StillRejected, ...]:
    """Return the numbers of records in quarantine, by resource and reason."""
    return tuple(StillRejected(*row) for row in connection.db.execute(_STAY).fetchall())

"""Reading quarantined media items again, by the mapping in force: those that have an id by now become rows.

An account set aside is not read again here: every sync lists it anew, and reads it by the reader of that day.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from connectors.warehouse.field_registry import read_mapping
from connectors.warehouse.fold import fold
from connectors.warehouse.fold_media import media_id_of
from connectors.warehouse.landing import last_seq
from connectors.warehouse.readings import path_list
from models.mapping import Mapping


@dataclass(frozen=True, slots=True)
class Staying:
    """Records that stay in quarantine, for one reason."""

    resource: str
    reason: str
    records: int


@dataclass(frozen=True, slots=True)
class Retried:
    """What a retry did, in records: `items` media items are made of `became_rows`; `outdated` ones had newer news."""

    became_rows: int
    items: int
    outdated: int
    stay: tuple[Staying, ...]


def _candidates(mapping: Mapping) -> str:
    # A table of its own for the length of the transaction: the fold drops every temporary one.
    return f"""
CREATE TABLE ops.retried AS
WITH found AS (
    SELECT
        *, rowid AS record,
        CASE WHEN json_valid(payload) THEN json_extract_string(payload, {path_list(mapping.media_id)}) END AS ids
    FROM core.quarantine WHERE resource = 'media' AND position IS NOT NULL
),
identified AS (
    SELECT * EXCLUDE (ids), {media_id_of(mapping)} AS media_id FROM found WHERE media_id IS NOT NULL
),
open_walks AS (
    SELECT account_id, surface, walk_id, updated_at FROM ops.checkpoints
    WHERE resource = 'media'
    QUALIFY row_number() OVER (PARTITION BY account_id, surface ORDER BY seq DESC) = 1 AND state = 'walking'
),
seen AS (
    SELECT DISTINCT s.account_id, s.surface, s.media_id, o.updated_at
    FROM ops.seen AS s JOIN open_walks AS o USING (walk_id)
),
known AS (
    SELECT
        m.account_id, m.surface, m.media_id,
        CASE
            WHEN m.removed_at IS NOT NULL THEN m.written_at
            ELSE greatest(coalesce(p.last_seen_at, greatest(m.written_at, w.complete_at)), s.updated_at)
        END AS last_seen_at
    FROM core.media AS m
    LEFT JOIN core.walks AS w ON w.resource = 'media' AND w.account_id = m.account_id AND w.surface = m.surface
    LEFT JOIN ops.missing AS p
        ON p.account_id = m.account_id AND p.surface = m.surface AND p.media_id = m.media_id
    LEFT JOIN seen AS s ON s.account_id = m.account_id AND s.surface = m.surface AND s.media_id = m.media_id
    SEMI JOIN identified AS i
        ON i.account_id = m.account_id AND i.surface = m.surface AND i.media_id = m.media_id
)
SELECT
    i.*, coalesce(k.last_seen_at >= i.seen_at, false) AS outdated, coalesce(o.walk_id, '') AS walk_id
FROM identified AS i
LEFT JOIN known AS k USING (account_id, surface, media_id)
LEFT JOIN open_walks AS o ON o.account_id = i.account_id AND o.surface = i.surface
"""  # noqa: S608 - made of the mapping's paths, quoted


# In the order in which they were met, so that the last version of an item is its last. They count as seen by the walk
# that is half-way: it passed its first pages by an older mapping, and could not tell that it misses them.
_STAGE = """
INSERT INTO ops.staging BY NAME
SELECT
    {after} + row_number() OVER (ORDER BY seen_at, page, position, record) AS seq,
    resource, account_id, surface, run_id, walk_id, page, seen_at AS received_at, correlation_id,
    '{{"items":[' || payload || ']}}' AS body
FROM ops.retried WHERE NOT outdated
"""

_LEAVE = "DELETE FROM core.quarantine WHERE rowid IN (SELECT record FROM ops.retried)"

# No complete walk since knew these items, so none of them says that they were still there at its end: when they were
# last seen stays what the quarantine knows, until the next complete walk finds them there or gone.
_DOUBT = """
INSERT INTO ops.missing BY NAME
SELECT r.account_id, r.surface, r.media_id, ?::TIMESTAMPTZ AS since, max(r.seen_at) AS last_seen_at
FROM ops.retried AS r
JOIN core.walks AS w ON w.resource = 'media' AND w.account_id = r.account_id AND w.surface = r.surface
WHERE NOT r.outdated
GROUP BY r.account_id, r.surface, r.media_id, w.complete_at
HAVING max(r.seen_at) < w.complete_at
"""

_COUNT = """
SELECT
    count(*) FILTER (NOT outdated) AS became_rows,
    count(DISTINCT (account_id, surface, media_id)) FILTER (NOT outdated) AS items,
    count(*) FILTER (outdated) AS outdated
FROM ops.retried
"""

_STAY = """
SELECT resource, reason, count(*) AS records FROM core.quarantine GROUP BY ALL ORDER BY records DESC, resource, reason
"""


def retry(connection: Connection, *, now: datetime) -> Retried:
    """Read the quarantined media items again, in the open transaction; those that have an id by now become rows.

    A record of an item that was seen at the same time or later leaves the quarantine without a trace: what is stored
    is newer. What still has no id stays as it is, untouched.

    Raises ValueError while something is staged: that must be folded first, for it goes into the archive, and what is
    read here is there already.
    """
    run = connection.exec_driver_sql
    if run("SELECT count(*) FROM ops.staging").scalar_one():
        message = "fold what is staged before a retry"
        raise ValueError(message)
    run(_candidates(read_mapping(connection)))
    became_rows, items, outdated = map(int, run(_COUNT).one())
    run(_LEAVE)
    if became_rows:
        run(_STAGE.format(after=last_seq(connection)))
        fold(connection)
        run(_DOUBT, (now,))
    run("DROP TABLE ops.retried")
    return Retried(became_rows, items, outdated, tuple(Staying(*row) for row in run(_STAY)))

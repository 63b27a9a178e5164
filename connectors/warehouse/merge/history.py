"""Merges the append-only history: superseded versions of content, and changed counts."""

from connectors.warehouse.ingest.columns import counts_of, names_of
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.quoting import quoted
from models.schema.mapping import Mapping
from models.schema.table_schemas import TableSchema, history

# The observations of compared items that changed, each with the previous one. The stored row counts as the first.
_OBSERVATIONS = """
CREATE OR REPLACE TEMP TABLE media_observations AS
WITH observed AS (
    SELECT
        r.account_id, r.surface, r.media_id, r._order_key AS order_key, r._received_at AS seen_at, s.content,
        {counts_read} AS counts, NULL::BIGINT AS stored
    FROM changed_items AS r JOIN media_hashes AS s ON s.order_key = r._order_key
    WHERE _seq > getvariable('slice_begin') AND _seq <= getvariable('slice_end')
    UNION ALL
    SELECT m.account_id, m.surface, m.media_id, -1, m.content_changed_at, s.content, {counts_stored}, s.stored
    FROM core.media AS m JOIN media_stored_hashes AS s ON m.rowid = s.stored
    WHERE s.stored IN (SELECT stored FROM media_to_write WHERE changes > 0)
)
SELECT
    *, content IS DISTINCT FROM lag(content) OVER item AS begins_version, lag(counts) OVER item AS counts_before
FROM observed
WINDOW item AS (PARTITION BY account_id, surface, media_id ORDER BY order_key)
"""

# Whether an observation after another one of its item begins a version: in most merges, only counts change.
_IS_ANY_SUPERSEDED = "SELECT EXISTS (FROM media_observations WHERE begins_version AND counts_before IS NOT NULL)"
_SUPERSEDED = """
INSERT INTO core.media_superseded BY NAME
WITH revised AS (
    SELECT account_id, surface, media_id FROM media_observations
    GROUP BY account_id, surface, media_id HAVING count(*) FILTER (begins_version) > 1
),
versioned AS (
    SELECT *, count(*) FILTER (begins_version) OVER (
        PARTITION BY account_id, surface, media_id ORDER BY order_key ROWS UNBOUNDED PRECEDING
    ) AS version
    FROM media_observations SEMI JOIN revised USING (account_id, surface, media_id)
),
versions AS (
    SELECT
        account_id, surface, media_id, version, arg_min(seen_at, order_key) AS valid_from, max(order_key) AS order_key,
        max(stored) AS stored
    FROM versioned GROUP BY account_id, surface, media_id, version
),
closed AS (
    SELECT *, lead(valid_from) OVER (PARTITION BY account_id, surface, media_id ORDER BY version) AS valid_to
    FROM versions QUALIFY valid_to IS NOT NULL
)
SELECT * EXCLUDE (_version) FROM (
    SELECT
        c.account_id, c.surface, c.media_id, c.valid_from, c.valid_to, c.version AS _version,
        r._order_key AS raw_landed{read}
    FROM closed AS c JOIN changed_items AS r ON r._order_key = c.order_key
    UNION ALL
    SELECT c.account_id, c.surface, c.media_id, c.valid_from, c.valid_to, c.version, m.raw_landed{stored}
    FROM closed AS c JOIN core.media AS m ON m.rowid = c.stored WHERE c.order_key = -1
)
ORDER BY account_id, surface, media_id, _version
"""

_METRICS = """
INSERT INTO core.media_metrics BY NAME
SELECT account_id, surface, media_id, metric, value, seen_at AS observed_at
FROM (
    SELECT
        account_id, surface, media_id, seen_at, unnest({names}) AS metric, unnest(counts) AS value,
        unnest(coalesce(counts_before, {nothing})) AS before
    FROM media_observations WHERE order_key >= 0
)
WHERE value IS DISTINCT FROM before
ORDER BY account_id, surface, media_id, observed_at, metric
"""


def merge_history(connection: Connection, mapping: Mapping, media: TableSchema) -> None:
    """Append the versions of content that `changed_items` supersede, and the new values of counts that they change.

    Needs `media_to_write` and `media_stored_hashes`. Call it before the slice's rows are rewritten.
    """
    read = counts_of(media.metrics, "r")
    line = _OBSERVATIONS.format(counts_read=read, counts_stored=counts_of(media.metrics, "m"))
    kept = [quoted(name) for name in (*(column.name for column in history(media, mapping).columns), "overflow")]
    superseded = _SUPERSEDED.format(
        read="".join(f", r.{name}" for name in kept), stored="".join(f", m.{name}" for name in kept)
    )
    nothing = "[" + ", ".join("NULL::BIGINT" for _ in media.metrics) + "]"
    metrics = _METRICS.format(names=names_of(media.metrics), nothing=nothing)
    db = connection.db
    db.execute(line)
    if value(db, _IS_ANY_SUPERSEDED):
        db.execute(superseded)
    db.execute(metrics)

"""Merges the append-only history: superseded versions of content, and changed counts."""

from connectors.warehouse.ingest.columns import counts_of, names_of
from connectors.warehouse.merge.merge_batch import ComparedItems, MergeBatch
from connectors.warehouse.storage.quoting import quoted
from models.schema.mapping import Mapping
from models.schema.table_schemas import TableSchema, history

# The observations of compared items that changed, each with the previous one. The stored row counts as the first.
_OBSERVATIONS = """
WITH observed AS (
    SELECT
        r.account_id, r.surface, r.media_id, r._order_key AS order_key, r._received_at AS seen_at, s.content,
        {counts_read} AS counts, NULL::BIGINT AS stored
    FROM {changed_items} AS r JOIN {hashes} AS s ON s.order_key = r._order_key
    UNION ALL
    SELECT m.account_id, m.surface, m.media_id, -1, m.content_changed_at, s.content, {counts_stored}, s.stored
    FROM core.media AS m JOIN {stored_hashes} AS s ON m.rowid = s.stored
    WHERE s.stored IN (SELECT stored FROM {to_write} WHERE changes > 0)
)
SELECT
    *, content IS DISTINCT FROM lag(content) OVER item AS begins_version, lag(counts) OVER item AS counts_before
FROM observed
WINDOW item AS (PARTITION BY account_id, surface, media_id ORDER BY order_key)
"""

# Whether an observation after another one of its item begins a version: in most merges, only counts change.
_IS_ANY_SUPERSEDED = "SELECT EXISTS (FROM {observations} WHERE begins_version AND counts_before IS NOT NULL)"
_SUPERSEDED = """
INSERT INTO core.media_superseded BY NAME
WITH revised AS (
    SELECT account_id, surface, media_id FROM {observations}
    GROUP BY account_id, surface, media_id HAVING count(*) FILTER (begins_version) > 1
),
versioned AS (
    SELECT *, count(*) FILTER (begins_version) OVER (
        PARTITION BY account_id, surface, media_id ORDER BY order_key ROWS UNBOUNDED PRECEDING
    ) AS version
    FROM {observations} SEMI JOIN revised USING (account_id, surface, media_id)
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
    FROM closed AS c JOIN {changed_items} AS r ON r._order_key = c.order_key
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
    FROM {observations} WHERE order_key >= 0
)
WHERE value IS DISTINCT FROM before
ORDER BY account_id, surface, media_id, observed_at, metric
"""


def merge_history(
    batch: MergeBatch,
    mapping: Mapping,
    media: TableSchema,
    compared: ComparedItems,
    to_write: str,
) -> None:
    """Append the versions of content that the batch supersedes, and the new values of counts.

    Creates the table `media_observations` of the changed items in `to_write`: keys, `order_key` (-1: the stored row),
    `seen_at`, and whether it `begins_version`. Call it before the rows are rewritten.
    """
    observations = batch.table(
        "media_observations",
        _OBSERVATIONS,
        counts_read=counts_of(media.metrics, "r"),
        counts_stored=counts_of(media.metrics, "m"),
        changed_items=compared.changed_items,
        hashes=compared.hashes,
        stored_hashes=compared.stored_hashes,
        to_write=to_write,
    )
    if batch.value(_IS_ANY_SUPERSEDED, observations=observations):
        kept = [quoted(name) for name in (*(column.name for column in history(media, mapping).columns), "overflow")]
        batch.run(
            _SUPERSEDED,
            observations=observations,
            changed_items=compared.changed_items,
            read="".join(f", r.{name}" for name in kept),
            stored="".join(f", m.{name}" for name in kept),
        )
    nothing = "[" + ", ".join("NULL::BIGINT" for _ in media.metrics) + "]"
    batch.run(_METRICS, names=names_of(media.metrics), nothing=nothing, observations=observations)

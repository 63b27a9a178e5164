"""Appends items that are not stored and were observed only once, without comparing them."""

from collections.abc import Sequence

from duckdb import DuckDBPyConnection

from connectors.warehouse.ingest.cells import decoded_children
from connectors.warehouse.ingest.columns import columns_select, counts_of, names_of
from connectors.warehouse.ingest.layout import Layout
from connectors.warehouse.storage.quoting import quoted
from models.schema.table_schemas import TableSchema

_MEDIA = """
INSERT INTO core.media BY NAME
SELECT
    n.account_id, n.surface, n.media_id{columns}, n.payload_hash, n.order_key AS raw_landed, n.overflow,
    n.received_at AS first_seen_at, n.received_at AS written_at, n.seq AS written_seq, n.received_at AS changed_at,
    n.received_at AS content_changed_at
FROM new_in_slice AS n
"""

_METRICS = """
INSERT INTO core.media_metrics BY NAME
SELECT * FROM (
    SELECT
        account_id, surface, media_id, unnest({names}) AS metric, unnest({counts}) AS value,
        _received_at AS observed_at
    FROM (
        SELECT n.account_id, n.surface, n.media_id, n.received_at AS _received_at{columns}
        FROM new_in_slice AS n
    ) AS r
)
WHERE value IS NOT NULL
"""

_CHILDREN = """
INSERT INTO core.{table} BY NAME
SELECT n.account_id, n.surface, n.media_id, c.* EXCLUDE (_order_key)
FROM {decoded} AS c JOIN new_in_slice AS n ON n.order_key = c._order_key
ORDER BY n.account_id, n.surface, n.media_id, c.position
"""


def insert_new(db: DuckDBPyConnection, table_schemas: Sequence[TableSchema], layout: Layout) -> None:
    """Append the items of `new_in_slice`, whose cells are registered: their rows, first counts and children.

    Their order is kept.
    """
    media, *children = table_schemas
    columns = columns_select(media, layout.media.cells)
    db.execute(_MEDIA.format(columns=columns))
    db.execute(_METRICS.format(names=names_of(media.metrics), counts=counts_of(media.metrics, "r"), columns=columns))
    for schema in children:
        if schema.lists:
            db.execute(_CHILDREN.format(table=quoted(schema.table), decoded=decoded_children(schema)))

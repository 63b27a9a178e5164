"""Writes the rows of items: new items, lists of objects (children), and the newest values of stored items."""

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence

from connectors.warehouse.ingest.columns import columns_select, counts_of, names_of
from connectors.warehouse.ingest.layout import Layout
from connectors.warehouse.merge.merge_batch import MergeBatch
from connectors.warehouse.storage.quoting import quoted
from models.schema.table_schemas import TableSchema

_NEW_MEDIA = """
INSERT INTO core.media BY NAME
SELECT
    n.account_id, n.surface, n.media_id{columns}, n.payload_hash, n.order_key AS raw_landed, n.overflow,
    n.received_at AS first_seen_at, n.received_at AS written_at, n.seq AS written_seq, n.received_at AS changed_at,
    n.received_at AS content_changed_at
FROM {new} AS n
"""

_NEW_METRICS = """
INSERT INTO core.media_metrics BY NAME
SELECT * FROM (
    SELECT
        account_id, surface, media_id, unnest({names}) AS metric, unnest({counts}) AS value,
        _received_at AS observed_at
    FROM (
        SELECT n.account_id, n.surface, n.media_id, n.received_at AS _received_at{columns}
        FROM {new} AS n
    ) AS r
)
WHERE value IS NOT NULL
"""

_NEW_CHILDREN = """
INSERT INTO core.{table} BY NAME
SELECT n.account_id, n.surface, n.media_id, c.* EXCLUDE (_order_key)
FROM {decoded} AS c JOIN {new} AS n ON n.order_key = c._order_key
ORDER BY n.account_id, n.surface, n.media_id, c.position
"""


def insert_new(
    batch: MergeBatch, table_schemas: Sequence[TableSchema], layout: Layout, new: str, children: MappingOf[str, str]
) -> None:
    """Append items that are not stored and were observed only once: their rows, first counts and children.

    `new` is a relation with the cells of these items, in the order in which they are appended; `children` are the
    relations with the decoded rows of child tables, by table.
    """
    media, *child_schemas = table_schemas
    columns = columns_select(media, layout.media.cells)
    names, counts = names_of(media.metrics), counts_of(media.metrics, "r")
    batch.run(_NEW_MEDIA, _NEW_METRICS, columns=columns, new=new, names=names, counts=counts)
    for schema in child_schemas:
        if schema.lists:
            batch.run(_NEW_CHILDREN, table=quoted(schema.table), decoded=children[schema.table], new=new)


_DELETE_CHILDREN = """
DELETE FROM core.{table} AS c USING {to_write} AS t
WHERE NOT t.is_new AND t.changes > 0
  AND c.account_id = t.account_id AND c.surface = t.surface AND c.media_id = t.media_id
"""

_INSERT_CHILDREN = """
INSERT INTO core.{table} BY NAME
SELECT t.account_id, t.surface, t.media_id, c.* EXCLUDE (_order_key)
FROM {to_write} AS t JOIN {decoded} AS c ON c._order_key = t.last_order_key
WHERE t.changes > 0
ORDER BY t.account_id, t.surface, t.media_id, c.position
"""


def merge_children(
    batch: MergeBatch,
    table_schemas: Sequence[TableSchema],
    children: MappingOf[str, str],
    to_write: str,
    *,
    are_stored: bool,
) -> None:
    """Write the children of the changed items in `to_write`; `children` are the decoded rows, by table.

    `are_stored`: some of these items are stored, so their old children are deleted.
    """
    for schema in table_schemas:
        if schema.lists:
            statements = (_DELETE_CHILDREN, _INSERT_CHILDREN) if are_stored else (_INSERT_CHILDREN,)
            batch.run(*statements, table=quoted(schema.table), decoded=children[schema.table], to_write=to_write)


# Stored items whose bytes differ, but neither their content nor their counts: usually only the signatures of
# URLs changed.
_RESIGNED = """
WITH last AS (
    SELECT
        account_id, surface, media_id, max(_order_key) AS order_key,
        arg_max(payload_hash, _order_key) AS payload_hash
    FROM {decoded}
    GROUP BY account_id, surface, media_id
)
SELECT l.account_id, l.surface, l.media_id, l.order_key, s.stored
FROM last AS l JOIN {stored} AS s USING (account_id, surface, media_id)
ANTI JOIN (FROM {to_write} WHERE changes > 0) USING (account_id, surface, media_id)
WHERE s.payload_hash IS DISTINCT FROM l.payload_hash
"""

# Which of the values of these items differ from the stored ones.
_OF_MEDIA = "m.rowid = r.stored"
_OF_CHILDREN = """
m.account_id = r.account_id AND m.surface = r.surface AND m.media_id = r.media_id AND m.position = d.position
"""
_DIFFERING = """
SELECT [{differ}]
FROM {resigned} AS r JOIN {decoded} AS d ON d._order_key = r.order_key JOIN core.{table} AS m ON {same}
"""
_UPDATE = """
UPDATE core.{table} AS m SET {values}
FROM {resigned} AS r JOIN {decoded} AS d ON d._order_key = r.order_key WHERE {same}
"""


def merge_newest(
    batch: MergeBatch,
    table_schemas: Sequence[TableSchema],
    decoded: MappingOf[str, str],
    stored: str,
    to_write: str,
) -> None:
    """Update the hash and all values of stored items whose content and counts did not change.

    Such values are not compared, or equal but spelled differently. `decoded` are the relations with the decoded rows
    of items and of child tables, by table, and `stored` the rows of the batch's partitions. Items in `to_write` are
    left out if they changed. Call it before rows are rewritten.
    """
    media, *_ = table_schemas
    resigned = batch.table(
        "media_resigned",
        _RESIGNED,
        decoded=decoded[media.table],
        stored=stored,
        to_write=to_write,
    )
    if not batch.is_any(resigned):
        return
    for schema in table_schemas:
        is_media = schema is media
        where = {
            "table": quoted(schema.table),
            "resigned": resigned,
            "decoded": decoded.get(schema.table, ""),
            "same": _OF_MEDIA if is_media else _OF_CHILDREN,
        }
        names = [*(column.name for column in schema.columns), *(["overflow"] if is_media else [])]
        if not names or not (is_media or schema.lists):
            continue
        differ = ", ".join(f"bool_or(m.{quoted(name)} IS DISTINCT FROM d.{quoted(name)})" for name in names)
        found = batch.value(_DIFFERING, differ=differ, **where)
        newest = [name for name, differs in zip(names, found, strict=True) if differs]
        newest += ["payload_hash"] if is_media else []
        if newest:
            values = ", ".join(f"{quoted(name)} = d.{quoted(name)}" for name in newest)
            batch.run(_UPDATE, values=values, **where)

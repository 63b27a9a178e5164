"""Writes the rows of items: new items, lists of objects (children), and the newest media URLs of stored items."""

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence

from connectors.warehouse.ingest.columns import columns_select, counts_of, names_of
from connectors.warehouse.ingest.layout import Layout
from connectors.warehouse.merge.merge_batch import MergeBatch
from connectors.warehouse.storage.quoting import quoted
from models.schema.mapping import Mapping
from models.schema.table_schemas import Part, TableSchema, part_of

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


# Stored items of a slice whose bytes differ, but neither their content nor their counts: usually only the signatures of
# media URLs changed.
_RESIGNED = """
WITH last AS (
    SELECT
        account_id, surface, media_id, max(_order_key) AS order_key,
        arg_max(payload_hash, _order_key) AS payload_hash
    FROM {decoded} WHERE _seq > {begin} AND _seq <= {end}
    GROUP BY account_id, surface, media_id
)
SELECT l.account_id, l.surface, l.media_id, l.order_key, s.stored
FROM last AS l JOIN {stored} AS s USING (account_id, surface, media_id)
ANTI JOIN (FROM {to_write} WHERE changes > 0) USING (account_id, surface, media_id)
WHERE s.payload_hash IS DISTINCT FROM l.payload_hash
"""

_UPDATE_MEDIA = """
UPDATE core.media AS m SET {values}
FROM {resigned} AS r JOIN {decoded} AS d ON d._order_key = r.order_key WHERE m.rowid = r.stored
"""

_UPDATE_CHILDREN = """
UPDATE core.{table} AS m SET {values}
FROM {resigned} AS r JOIN {decoded} AS d ON d._order_key = r.order_key
WHERE m.account_id = r.account_id AND m.surface = r.surface AND m.media_id = r.media_id AND m.position = d.position
"""


def addresses(schema: TableSchema, mapping: Mapping) -> list[str]:
    """Return the names of a schema's columns that contain media URLs."""
    return [column.name for column in schema.columns if part_of(column, mapping) is Part.ADDRESS]


def _values(names: Sequence[str]) -> str:
    return ", ".join(f"{quoted(name)} = d.{quoted(name)}" for name in names)


def merge_addresses(
    batch: MergeBatch,
    mapping: Mapping,
    table_schemas: Sequence[TableSchema],
    decoded: MappingOf[str, str],
    stored: str,
    to_write: str,
    begin: int,
    end: int,
) -> None:
    """Update the media URLs and the hash of stored items of a slice in which nothing else changed.

    `decoded` are the relations with the decoded rows of items and of child tables, by table, and `stored` the rows of
    the merge's partitions. Items in `to_write` are left out if they changed. Call it before rows are rewritten.
    """
    media, *children = table_schemas
    resigned = batch.table(
        "media_resigned",
        _RESIGNED,
        decoded=decoded[media.table],
        stored=stored,
        to_write=to_write,
        begin=begin,
        end=end,
    )
    if not batch.is_any(resigned):
        return
    values = _values([*addresses(media, mapping), "payload_hash"])
    batch.run(_UPDATE_MEDIA, values=values, resigned=resigned, decoded=decoded[media.table])
    for schema in children:
        if names := addresses(schema, mapping):
            batch.run(
                _UPDATE_CHILDREN,
                table=quoted(schema.table),
                values=_values(names),
                resigned=resigned,
                decoded=decoded[schema.table],
            )

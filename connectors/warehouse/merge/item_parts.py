"""Writes the parts of an item outside its row's content: lists of objects (children), and the newest media URLs."""

from collections.abc import Sequence

from connectors.warehouse.ingest.cells import decoded_children
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.quoting import quoted
from models.schema.mapping import Mapping
from models.schema.table_schemas import Part, TableSchema, part_of


def merge_children(connection: Connection, table_schemas: Sequence[TableSchema], *, are_stored: bool) -> None:
    """Write the children of changed items in `media_to_write`.

    `are_stored`: some of these items are stored, so their old children are deleted.
    """
    for schema in table_schemas:
        table = f"core.{quoted(schema.table)}"
        if not schema.lists:
            continue
        if are_stored:
            connection.db.execute(
                f"DELETE FROM {table} AS c USING media_to_write AS t"  # noqa: S608 - quoted
                " WHERE NOT t.is_new AND t.changes > 0"
                " AND c.account_id = t.account_id AND c.surface = t.surface AND c.media_id = t.media_id"
            )
        connection.db.execute(
            f"INSERT INTO {table} BY NAME SELECT t.account_id, t.surface, t.media_id, c.* EXCLUDE (_order_key)"  # noqa: S608
            f" FROM media_to_write AS t JOIN {decoded_children(schema)} AS c ON c._order_key = t.last_order_key"
            " WHERE t.changes > 0"
            " ORDER BY t.account_id, t.surface, t.media_id, c.position"
        )


# Stored items of a slice whose bytes differ, but neither their content nor their counts: usually only the signatures of
# media URLs changed.
_RESIGNED = """
CREATE OR REPLACE TEMP TABLE media_resigned AS
WITH last AS (
    SELECT
        account_id, surface, media_id, max(_order_key) AS order_key,
        arg_max(payload_hash, _order_key) AS payload_hash
    FROM media_decoded WHERE _seq > getvariable('slice_begin') AND _seq <= getvariable('slice_end')
    GROUP BY account_id, surface, media_id
)
SELECT l.account_id, l.surface, l.media_id, l.order_key, s.stored
FROM last AS l JOIN media_stored AS s USING (account_id, surface, media_id)
ANTI JOIN (FROM media_to_write WHERE changes > 0) USING (account_id, surface, media_id)
WHERE s.payload_hash IS DISTINCT FROM l.payload_hash
"""


def addresses(schema: TableSchema, mapping: Mapping) -> list[str]:
    """Return the names of a schema's columns that contain media URLs."""
    return [column.name for column in schema.columns if part_of(column, mapping) is Part.ADDRESS]


def merge_addresses(
    connection: Connection, mapping: Mapping, media: TableSchema, children: Sequence[TableSchema]
) -> None:
    """Update the media URLs and the hash of stored items in which nothing else changed.

    Needs `media_to_write`, `media_stored` and the decoded rows. Call it in the open transaction, before rows are
    rewritten.
    """
    db = connection.db
    db.execute(_RESIGNED)
    if not value(db, "SELECT EXISTS (FROM media_resigned)"):
        return
    names = [quoted(name) for name in (*addresses(media, mapping), "payload_hash")]
    db.execute(
        f"UPDATE core.media AS m SET {', '.join(f'{name} = d.{name}' for name in names)}"  # noqa: S608 - quoted
        " FROM media_resigned AS r JOIN media_decoded AS d ON d._order_key = r.order_key WHERE m.rowid = r.stored"
    )
    for schema in children:
        if names := [quoted(name) for name in addresses(schema, mapping)]:
            db.execute(
                f"UPDATE core.{quoted(schema.table)} AS m"  # noqa: S608 - quoted
                f" SET {', '.join(f'{name} = d.{name}' for name in names)}"
                f" FROM media_resigned AS r JOIN {decoded_children(schema)} AS d ON d._order_key = r.order_key"
                " WHERE m.account_id = r.account_id AND m.surface = r.surface AND m.media_id = r.media_id"
                " AND m.position = d.position"
            )

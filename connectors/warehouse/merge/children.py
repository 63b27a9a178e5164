"""Merging children: the rows of an item's lists of objects, replaced where the item was written."""

from collections.abc import Sequence

from sqlalchemy import Connection

from connectors.warehouse.ingest.cells import decoded_children
from connectors.warehouse.storage.connection import raw_connection
from connectors.warehouse.storage.quoting import quoted
from models.schema.table_schemas import TableSchema


def merge_children(connection: Connection, table_schemas: Sequence[TableSchema]) -> None:
    """Rewrite the children of the items among `media_touched` that say something new."""
    for schema in table_schemas:
        table = f"core.{quoted(schema.table)}"
        if not schema.lists:
            continue
        raw_connection(connection).execute(
            f"DELETE FROM {table} AS c USING media_touched AS t"  # noqa: S608 - the schema's own name, quoted
            " WHERE NOT t.is_new AND t.news > 0"
            " AND c.account_id = t.account_id AND c.surface = t.surface AND c.media_id = t.media_id"
        )
        raw_connection(connection).execute(
            f"INSERT INTO {table} BY NAME SELECT t.account_id, t.surface, t.media_id, c.* EXCLUDE (order_key)"  # noqa: S608
            f" FROM media_touched AS t JOIN {decoded_children(schema)} AS c ON c.order_key = t.last_order_key"
            " WHERE t.news > 0"
            " ORDER BY t.account_id, t.surface, t.media_id, c.position"
        )

"""Folding children: the rows of an item's lists of objects, written anew where the item was."""

from collections.abc import Sequence

from sqlalchemy import Connection

from connectors.warehouse.connection import duck
from connectors.warehouse.ingest.cells import decoded_children
from connectors.warehouse.quoting import quoted
from models.sheets import Sheet


def fold_children(connection: Connection, sheets: Sequence[Sheet]) -> None:
    """Rewrite the children of the items among `media_touched` that say something new."""
    for sheet in sheets:
        table = f"core.{quoted(sheet.table)}"
        if not sheet.lists:
            continue
        duck(connection).execute(
            f"DELETE FROM {table} AS c USING media_touched AS t"  # noqa: S608 - the sheet's own name, quoted
            " WHERE NOT t.is_new AND t.news > 0"
            " AND c.account_id = t.account_id AND c.surface = t.surface AND c.media_id = t.media_id"
        )
        duck(connection).execute(
            f"INSERT INTO {table} BY NAME SELECT t.account_id, t.surface, t.media_id, c.* EXCLUDE (place)"  # noqa: S608
            f" FROM media_touched AS t JOIN {decoded_children(sheet)} AS c ON c.place = t.last_place WHERE t.news > 0"
            " ORDER BY t.account_id, t.surface, t.media_id, c.position"
        )

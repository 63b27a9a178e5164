"""Values that could not be converted to the type of a mapped column: it is NULL although the item has a value."""

from collections.abc import Iterator

from connectors.warehouse.schema.field_registry import read_mapping, read_registry
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.quoting import quoted
from models.runs import RunWarning
from models.schema.fields import MEDIA
from models.schema.json_types import LISTS, JsonType
from models.schema.mapping import ColumnMapping
from models.schema.table_schemas import has_own_column

CODE = "values_not_cast"

_LOST = LISTS | {JsonType.MIXED, JsonType.UNREADABLE, JsonType.OBJECT}

_HINT = "set a path to the value under [mapping] in gramhouse.toml, then run `gramhouse rebuild`"


def _suspects(connection: Connection) -> Iterator[tuple[ColumnMapping, tuple[str, ...]]]:
    """Yield the columns that have received values they cannot store, each with the columns that do store them."""
    registry = read_registry(connection)
    for column in read_mapping(connection).columns:
        fields = [registry[MEDIA, path] for path in column.paths if (MEDIA, path) in registry]
        if any(field.json_types.keys() & _LOST for field in fields):
            yield column, tuple(field.name for field in fields if has_own_column(field, column.reading))


def values_not_cast(connection: Connection) -> RunWarning | None:
    """Return a warning that names each mapped column with lost values, and the number of items; None if there are none.

    A value stays lost until the mapping or the item changes, so all present items are counted, not only those of one
    run. The value itself is kept in the field's own column; views that need the mapped column omit the item.
    """
    counts: dict[str, int] = {}
    for column, holders in _suspects(connection):
        held = " OR ".join(f"nullif({quoted(name)}::VARCHAR, '') IS NOT NULL" for name in holders) or "false"
        query = f"""
SELECT count(*) FROM core.media WHERE removed_at IS NULL AND {quoted(column.column)} IS NULL AND ({held})
"""  # noqa: S608 - quoted names
        if items := int(value(connection.db, query)):
            counts[column.column] = items
    if not counts:
        return None
    named = ", ".join(f"{name} ({items:,})" for name, items in sorted(counts.items(), key=lambda each: -each[1]))
    detail = f"Values of media items that could not be converted to their column's type and are NULL: {named}."
    return RunWarning(CODE, sum(counts.values()), detail, hint=_HINT)

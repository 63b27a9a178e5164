"""Values that could not be converted to the type of a mapped column: it is NULL although the item has a value."""

from collections import Counter

from connectors.warehouse.schema.field_registry import read_mapping, read_registry
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.declared import ITEM_TABLES
from connectors.warehouse.storage.quoting import quoted
from models.runs import RunWarning
from models.schema.json_types import LISTS, JsonType
from models.schema.table_schemas import has_own_column

CODE = "values_not_cast"

_LOST = LISTS | {JsonType.MIXED, JsonType.UNREADABLE, JsonType.OBJECT}

_HINT = "set a path to the value under [mapping] in gramhouse.toml, then run `gramhouse rebuild`"


def values_not_cast(connection: Connection) -> RunWarning | None:
    """Return a warning that names each mapped column with lost values, and the number of items; None if there are none.

    A value stays lost until the mapping or the item changes, so all present items are counted, not only those of one
    run. The value itself is kept in the field's own column; views that need the mapped column omit the item.
    """
    registry, mapping = read_registry(connection), read_mapping(connection)
    counts = Counter[str]()
    for table, column in ((one, column) for one in ITEM_TABLES for column in mapping.of(one).columns):
        fields = [registry[table, path] for path in column.paths if (table, path) in registry]
        if not any(field.json_types.keys() & _LOST for field in fields):
            continue
        holders = (field.name for field in fields if has_own_column(field, column.reading))
        held = " OR ".join(f"nullif({quoted(name)}::VARCHAR, '') IS NOT NULL" for name in holders) or "false"
        query = f"""
SELECT count(*) FROM core.{table} WHERE removed_at IS NULL AND {quoted(column.column)} IS NULL AND ({held})
"""  # noqa: S608 - quoted names
        if items := int(value(connection.db, query)):
            counts[column.column] += items
    if not counts:
        return None
    named = ", ".join(f"{name} ({items:,})" for name, items in sorted(counts.items(), key=lambda each: -each[1]))
    detail = f"Values of media items that could not be converted to their column's type and are NULL: {named}."
    return RunWarning(CODE, sum(counts.values()), detail, hint=_HINT)

"""SQL that compares two rows of an item: their typed columns, their children and their overflow.

Media URLs are not compared: they are signed again for every response. Counts are compared separately.
"""

from collections.abc import Callable, Sequence

from connectors.warehouse.ingest.columns import count_of
from connectors.warehouse.storage.quoting import quoted
from models.schema.json_types import JsonType
from models.schema.mapping import Mapping
from models.schema.table_schemas import ColumnSchema, Part, TableSchema, holds_content, part_of

# Within JSON text: a key that names an address of media, with its value.
_ADDRESSES = '"(?:[^"]*[_/])?(?:url|uri|src)":"[^"]*"|"[^"]*(?:Url|URL|Uri|URI|Src)":"[^"]*"'


def _without_addresses(text: str) -> str:
    return f"regexp_replace({text}, '{_ADDRESSES}', '', 'g')"


def _present(column: ColumnSchema, name: str) -> str:
    """Return the expression of what a value says.

    NULL for what is empty: it has no column until other values are met. An object's fields have columns of their own.
    """
    if column.type.endswith("[]"):
        # Hashed by itself: DuckDB's hash of several values passes over a list that is NULL, as if it were not there.
        return f"CASE WHEN list_count({name}) > 0 THEN hash({name}) END"
    if column.field is None or column.type != "VARCHAR":
        return name
    kinds = column.field.json_types.keys()
    text = f"nullif(nullif({name}, '{{}}'), '[]')"
    if JsonType.OBJECT in kinds and JsonType.MIXED not in kinds:
        text = f"CASE WHEN {name} NOT LIKE '{{\"%' THEN {text} END"
    return _without_addresses(text) if kinds & {JsonType.OBJECT, JsonType.ROWS, JsonType.MIXED} else text


def _content(column: ColumnSchema, mapping: Mapping, row: str) -> str:
    name = f"{row}.{quoted(column.name)}"
    if part_of(column, mapping) is Part.CONTENT:
        return _present(column, name)
    # Beside counts stand other values.
    return f"CASE WHEN {count_of(name, column.type)} IS NULL THEN {_present(column, name)} END"


def _hash(values: Sequence[str]) -> str:
    return f"hash({', '.join(['0', *values])})"


def overflow_of(row: str) -> str:
    """Return the expression of what a row says beside its columns, addresses of media aside."""
    return _without_addresses(f"{row}.overflow")


def content_of(schema: TableSchema, mapping: Mapping, row: str, *more: str) -> str:
    """Return the hash of what a row says, counts and addresses of media aside, and of `more` expressions."""
    found = (_content(column, mapping, row) for column in schema.columns if holds_content(column, mapping))
    return _hash([*found, *more])


def counts_hash(schema: TableSchema, mapping: Mapping, row: str, *more: str) -> str:
    """Return the hash of a row's counts, and of `more` expressions."""
    counts = [count_of(f"{row}.{quoted(c.name)}", c.type) for c in schema.columns if part_of(c, mapping) is Part.COUNT]
    return _hash([*counts, *more])


def hashes_of_children(
    table_schemas: Sequence[TableSchema], mapping: Mapping, relation: Callable[[TableSchema], str], key: str
) -> str:
    """Return the query of what the children of items say together: `key` columns, content, counts.

    `relation` gives, for a child table, the query of its rows with the key columns and `position`.
    """
    hashes = " UNION ALL ".join(
        f"SELECT {key}, {content_of(schema, mapping, 'c', str(number), 'c.position')} AS content,"  # noqa: S608
        f" {counts_hash(schema, mapping, 'c', str(number), 'c.position')} AS counts FROM ({relation(schema)}) AS c"
        for number, schema in enumerate(table_schemas)
    )
    return f"SELECT {key}, bit_xor(content) AS content, bit_xor(counts) AS counts FROM ({hashes}) GROUP BY {key}"  # noqa: S608


_KEY = "account_id, surface, media_id"


def hashes_of_stored(media: TableSchema, children: Sequence[TableSchema], mapping: Mapping, wanted: str) -> str:
    """Return the query of what stored items say: stored (their rowid), content, counts.

    `wanted` is a query of their keys and `stored`.
    """
    of_children = hashes_of_children(
        children, mapping, lambda schema: f"FROM core.{quoted(schema.table)} SEMI JOIN ({wanted}) USING ({_KEY})", _KEY
    )
    return f"""
SELECT
    w.stored, {content_of(media, mapping, "m", overflow_of("m"), "coalesce(c.content, 0)")} AS content,
    {counts_hash(media, mapping, "m", "coalesce(c.counts, 0)")} AS counts
FROM core.media AS m JOIN ({wanted}) AS w ON m.rowid = w.stored
LEFT JOIN ({of_children}) AS c ON c.account_id = m.account_id AND c.surface = m.surface AND c.media_id = m.media_id
"""  # noqa: S608 - made of the schemas' names, quoted

"""User queries on the snapshot: statements that only read, with every value as text or as JSON can express it."""

import math
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
from duckdb import DuckDBPyConnection, DuckDBPyRelation, StatementType, token_type, tokenize
from duckdb.sqltypes import DuckDBPyType

from connectors.warehouse.storage.errors import QueryError
from connectors.warehouse.storage.quoting import quoted

_ONLY_READING = (
    "Only statements that read the snapshot are allowed: SELECT, FROM, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN, PIVOT,"
    " UNPIVOT, WITH, VALUES."
)

# Functions that a SELECT can call, but that change the process, write to its output, abort it, or run SQL text that is
# not checked here. The file is opened read-only and without access to other files, so nothing else can do harm.
_ACTING = {
    "checkpoint", "disable_logging", "disable_profiling", "enable_logging", "enable_profiling", "force_checkpoint",
    "query", "query_table", "truncate_duckdb_logs", "write_log",
}  # fmt: skip
_RAW = re.compile(r"\braw_(media|versions)\b", re.IGNORECASE)
_CALL = re.compile(r'"?(\w+)"?\s*', re.ASCII)
_NAMES = {token_type.identifier, token_type.keyword}

_NUMBERS = {
    "boolean", "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint",
    "uhugeint",
}  # fmt: skip


class Shown(NamedTuple):
    """How values are shown: the SQL type to cast them to, and the conversion of the resulting Python values."""

    sql: str
    convert: Callable[[Any], object] | None = None

    def value(self, value: Any) -> object:  # noqa: ANN401 - a value of any type
        """Return a value of the SQL type as it is shown."""
        return value if value is None or self.convert is None else self.convert(value)


TEXT = Shown("VARCHAR")


def mentions_raw_media(query: str) -> bool:
    """Return whether a user's query may read the raw store."""
    return _RAW.search(query) is not None


def check_reading(db: DuckDBPyConnection, query: str) -> None:
    """Raise QueryError unless all statements of a query only read; duckdb.Error when it cannot be parsed."""
    for statement in db.extract_statements(query):
        # DuckDB turns some pivots into two statements; the first, which has no text, creates an enum type.
        if statement.type not in {StatementType.SELECT, StatementType.EXPLAIN} and statement.query:
            raise QueryError(_ONLY_READING)
    tokens, text = tokenize(query), query.encode()
    for (start, kind), (after, _) in pairwise(tokens):
        name = _CALL.match(text[start:after].decode())
        if kind in _NAMES and name and text[after : after + 1] == b"(" and name[1].lower() in _ACTING:
            raise QueryError(f"{name[1].lower()} does not read the snapshot and is not allowed.")


def cast(relation: DuckDBPyRelation, shown: Sequence[Shown]) -> DuckDBPyRelation:
    """Return the relation with each column cast to its type."""
    columns = enumerate(zip(relation.columns, shown, strict=True), 1)
    return relation.project(", ".join(f"CAST(#{index} AS {to.sql}) AS {quoted(name)}" for index, (name, to) in columns))


def as_json(kind: DuckDBPyType) -> Shown:
    """Return how values of a type are shown in JSON.

    Numbers, lists, structs, maps and JSON stay what they are. Anything else is text: instants in ISO 8601, infinite
    numbers and NaN by name, other values as DuckDB writes them.
    """
    if str(kind) == "JSON" or kind.id == "variant":
        return Shown("JSON", _embedded)
    if kind.id in _NUMBERS:
        return Shown(str(kind))
    if kind.id in {"float", "double"}:
        return Shown(str(kind), _number)
    if kind.id == "timestamp with time zone":
        return Shown(str(kind), _instant)
    if kind.id in {"list", "array"}:
        [(_, item), *_] = _inner(kind)
        return Shown(f"{item.sql}[]", lambda items: [item.value(each) for each in items])
    if kind.id == "map":
        [_, (_, item)] = _inner(kind)
        return Shown(f"MAP(VARCHAR, {item.sql})", lambda items: {key: item.value(items[key]) for key in items})
    if kind.id == "struct" and all(name for name, _ in kind.children):
        fields = dict(_inner(kind))
        inner = ", ".join(f"{quoted(name)} {field.sql}" for name, field in fields.items())
        return Shown(f"STRUCT({inner})", lambda row: {name: fields[name].value(row[name]) for name in fields})
    return TEXT


def _inner(kind: DuckDBPyType) -> list[tuple[str, Shown]]:
    # An array has its length as another child.
    return [(name, as_json(child)) for name, child in kind.children if isinstance(child, DuckDBPyType)]


def _embedded(text: str) -> object:
    """Return JSON text to be embedded unchanged but for its spaces; text that is not strict JSON stays text."""
    try:
        return msgspec.Raw(msgspec.json.format(text, indent=0))
    except (msgspec.MsgspecError, RecursionError):
        return text


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _instant(value: datetime | str) -> str:
    # What Python cannot represent is text already; infinite instants are Python's extremes, without a time zone.
    if isinstance(value, str):
        return value
    if value.tzinfo is None:
        return "infinity" if value.year > 1 else "-infinity"
    return value.isoformat()

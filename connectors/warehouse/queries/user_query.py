"""User queries on the snapshot: statements that only read, with every value as text or as JSON can express it."""

import re
from collections.abc import Sequence
from itertools import pairwise

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

# What JSON has values for. Anything else is text, as DuckDB writes it, because a JSON number may lose digits.
_JSON_TYPES = {
    "boolean", "tinyint", "smallint", "integer", "bigint", "hugeint", "utinyint", "usmallint", "uinteger", "ubigint",
    "uhugeint", "float", "double", "list", "array", "map", "struct",
}  # fmt: skip


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


def as_texts(rows: DuckDBPyRelation, *, for_json: bool) -> tuple[DuckDBPyRelation, Sequence[bool]]:
    """Return the rows with every value as DuckDB's text, and whether that of each column is JSON, which `embed` reads.

    `for_json`: numbers, lists, structs, maps and JSON stay what they are, and instants are in ISO 8601.
    """
    columns = enumerate(zip(rows.columns, rows.types, strict=True), 1)
    texts = [
        (name, *(_json_text(f"#{n}", kind) if for_json else (f"#{n}::VARCHAR", False))) for n, (name, kind) in columns
    ]
    chosen = ", ".join(f"{value} AS {quoted(name)}" for name, value, _ in texts)
    return rows.project(chosen), [is_json for *_, is_json in texts]


def _json_text(column: str, kind: DuckDBPyType) -> tuple[str, bool]:
    if str(kind) == "JSON" or kind.id == "variant":
        return f"{column}::JSON::VARCHAR", True
    # Members without names would all be one member.
    if kind.id in _JSON_TYPES and not (kind.id == "struct" and any(not name for name, _ in kind.children)):
        return f"to_json({column})::VARCHAR", True
    if kind.id == "timestamp with time zone":
        return rf"regexp_replace({column}::VARCHAR, '^([-\d]+) ([\d:.]+)\+00$', '\1T\2+00:00')", False
    return f"{column}::VARCHAR", False


def embed(text: str | None) -> object:
    """Return JSON text to be embedded unchanged but for its spaces; text that is not strict JSON stays text."""
    try:
        return None if text is None else msgspec.Raw(msgspec.json.format(text, indent=0))
    except (msgspec.MsgspecError, RecursionError):
        return text

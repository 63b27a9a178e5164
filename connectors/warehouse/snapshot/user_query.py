"""User queries on the snapshot: only read-only statements, and values that can be displayed."""

import re
from itertools import pairwise

import duckdb
from duckdb import DuckDBPyConnection, StatementType

from connectors.warehouse.storage.quoting import quoted

_READING = ("SELECT", "FROM", "DESCRIBE", "SHOW", "SUMMARIZE", "EXPLAIN", "PIVOT", "UNPIVOT", "WITH", "VALUES")
_SPELLED = {*_READING, "DESC", "TABLE"}
_PIVOTS = {"PIVOT", "PIVOT_WIDER"}

# EXPLAIN ANALYZE runs its statement, so that statement is checked too.
_BEFORE_EXPLAINED = {"ANALYZE", "VERBOSE"}

# Functions that a SELECT can call, but that change the process, write files, or run SQL text that is not checked here.
_ACTING = re.compile(
    r'\b(enable_logging|disable_logging|enable_profiling|disable_profiling|truncate_duckdb_logs|write_log|query|query_table'
    r'|checkpoint|force_checkpoint)"?\s*\(',
    re.IGNORECASE,
)  # fmt: skip

_QUOTED = re.compile(r"""(["'])(\1\1|(?!\1).)*\1""", re.DOTALL)
_COMMENT = re.compile(r"--|/\*")

_DESCRIBED = {"SELECT", "FROM", "WITH", "VALUES", "TABLE"}

# Python cannot represent infinite dates, intervals of calendar months, or intervals of millions of years.
_AS_TEXT = re.compile(r"DATE|TIMESTAMP(_\w+)?|.*\bINTERVAL\b.*", re.DOTALL)

_ONLY = f"Only statements that read the snapshot are allowed: {', '.join(_READING)}."


def refusal(db: DuckDBPyConnection, query: str) -> str | None:
    """Return one line that explains why a query is refused; None if all of its statements only read.

    Raises duckdb.Error when the query cannot be parsed.
    """
    db.extract_statements(query)
    return next(filter(None, (_refusal(db, text) for text in statements(query))), None)


def shown(db: DuckDBPyConnection, query: str) -> str:
    """Return an allowed query with a cast to text of the columns whose values Python may not be able to represent."""
    texts = statements(query)
    if len(texts) != 1 or next((word for _, word in _words(texts[0]) if word != "("), "") not in _DESCRIBED:
        return query
    asked = f"FROM (\n{texts[0]}\n)"
    try:
        columns = [(str(name), str(kind)) for name, kind, *_ in db.execute(f"DESCRIBE {asked}").fetchall()]
    except duckdb.Error:
        # Running the original query raises the same error, with a message that quotes what the user typed.
        return query
    if not any(_AS_TEXT.fullmatch(kind) for _, kind in columns):
        return query
    chosen = (
        f"CAST(#{index} AS VARCHAR) AS {quoted(name)}" if _AS_TEXT.fullmatch(kind) else f"#{index} AS {quoted(name)}"
        for index, (name, kind) in enumerate(columns, 1)
    )
    return f"SELECT {', '.join(chosen)} {asked}"


def statements(query: str) -> list[str]:
    """Split a query into its statements as they were typed; DuckDB's `extract_statements` rewrites some of them."""
    encoded = query.encode()
    ends = [start for start, word in _words(query) if word == ";"]
    texts = (encoded[start:end].decode() for start, end in pairwise([0, *(end + 1 for end in ends), len(encoded) + 1]))
    return [text for text in (each.rstrip().removesuffix(";") for each in texts) if _words(text)]


def _refusal(db: DuckDBPyConnection, statement: str) -> str | None:
    words = _words(statement)
    types = {found.type for found in db.extract_statements(statement)}
    if any(word in _PIVOTS for _, word in words):
        # DuckDB turns some pivots into two statements, the first of which creates an enum type.
        types.discard(StatementType.CREATE)
    first = next((word for _, word in words if word != "("), "")
    if first not in _SPELLED or not types <= {StatementType.SELECT, StatementType.EXPLAIN}:
        return _ONLY
    if acting := _ACTING.search(" ".join(word for _, word in words)):
        return f"{acting[1].lower()} does not read the snapshot and is not allowed."
    return refusal(db, _explained(statement, words)) if first == "EXPLAIN" else None


def _words(text: str) -> list[tuple[int, str]]:
    """Return each token in upper case with its byte offset, without the spaces and comments that follow it."""
    encoded = text.encode()
    starts = [start for start, _ in duckdb.tokenize(text)]
    tokens = (encoded[start:end].decode() for start, end in pairwise([*starts, len(encoded)]))
    return [(start, _bare(token).upper()) for start, token in zip(starts, tokens, strict=True)]


def _bare(token: str) -> str:
    quoted = _QUOTED.match(token)
    return quoted[0] if quoted else token if token[:1] == "$" else _COMMENT.split(token)[0].strip()


def _explained(text: str, words: list[tuple[int, str]]) -> str:
    rest = words[[word for _, word in words].index("EXPLAIN") + 1 :]
    while rest and rest[0][1] in _BEFORE_EXPLAINED:
        rest = rest[1:]
    if len(rest) > 1 and rest[0][1] == "(" and rest[1][1] not in {*_SPELLED, "("}:
        rest = rest[[word for _, word in rest].index(")") + 1 :]
    return text.encode()[rest[0][0] :].decode() if rest else ""

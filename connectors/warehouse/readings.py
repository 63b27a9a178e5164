"""SQL that reads columns out of payloads, made from the sheets: data in, text out."""

from collections.abc import Sequence

from connectors.warehouse.quoting import literal, quoted
from models.mapping import Mapping, Reading
from models.pointer import through_objects
from models.sheets import Metric, Sheet, SheetColumn

# What Python's years 1 to 9999 do not hold is none: DuckDB knows infinity and years before Christ, and cannot compute
# with the one.
_INSTANT = (
    "CASE WHEN TRY_CAST({0} AS TIMESTAMPTZ) BETWEEN TIMESTAMPTZ '0001-01-02 00:00:00+00'"
    " AND TIMESTAMPTZ '9999-12-30 00:00:00+00' THEN TRY_CAST({0} AS TIMESTAMPTZ) END"
)

_COUNT = "CASE WHEN regexp_full_match({0}, '-?[0-9]+(\\.0+)?') THEN TRY_CAST({0} AS BIGINT) END"

# Of the text that DuckDB finds in a JSON value.
READINGS = {
    Reading.TEXT: "{0}",
    # A count may come as a number, or as a string that holds one; DuckDB alone would round 1.5 to 2.
    Reading.COUNT: _COUNT,
    Reading.NUMBER: "TRY_CAST({0} AS DOUBLE)",
    Reading.FLAG: "TRY_CAST({0} AS BOOLEAN)",
    # ISO 8601 with Z, +00:00 or +0000; seconds or milliseconds since 1970. The first line spares dates the patterns.
    Reading.TIMESTAMP: (
        f"CASE WHEN {{0}} LIKE '____-__-__%' THEN {_INSTANT}"
        " WHEN regexp_full_match({0}, '-?[0-9]{{1,10}}(\\.[0-9]+)?') THEN to_timestamp(TRY_CAST({0} AS DOUBLE))"
        " WHEN regexp_full_match({0}, '[0-9]{{12,14}}') THEN to_timestamp(TRY_CAST({0} AS DOUBLE) / 1000)"
        f" ELSE {_INSTANT} END"
    ),
}

_OF_TYPE = {
    "VARCHAR": "{0}",
    "BOOLEAN": "TRY_CAST({0} AS BOOLEAN)",
    "BIGINT": "TRY_CAST({0} AS BIGINT)",
    "DOUBLE": "TRY_CAST({0} AS DOUBLE)",
    "TIMESTAMP WITH TIME ZONE": _INSTANT,
}


def field_at(path: str) -> str:
    """Return the JSON Pointer of a field as an SQL string."""
    return literal(through_objects(path))


def field_list(paths: Sequence[str]) -> str:
    """Return the JSON Pointers of fields as an SQL list."""
    return path_list(list(map(through_objects, paths)))


def path_list(paths: Sequence[str]) -> str:
    """Return JSON Pointers as an SQL list."""
    return "[" + ", ".join(map(literal, paths)) + "]::VARCHAR[]"


def of_type(kind: str, text: str) -> str:
    """Return the expression that reads a value of this column type out of a text expression."""
    if kind.endswith("[]"):
        # A pointer may lead where there is no list (see through_objects).
        return f"CASE WHEN json_valid({text}) THEN from_json({text}, '[\"{kind.removesuffix('[]')}\"]') END"
    return _OF_TYPE[kind].format(text)


def column_value(column: SheetColumn, texts: Sequence[str]) -> str:
    """Return the expression of a column's value, given one of the text at each of its paths."""
    if not texts:
        return f"NULL::{column.type}"
    if column.mapping is None:
        return of_type(column.type, texts[0])
    reading = READINGS[column.mapping.reading]
    return f"coalesce({', '.join(reading.format(text) for text in texts)})"


def metric_of(text: str) -> str:
    """Return the expression of a count, given one of its text; no count is NULL."""
    return _COUNT.format(text)


class Found:
    """The paths that a statement looks up in each payload, all at once, and where each one's text is then found."""

    def __init__(self, name: str = "found") -> None:
        self._name = name
        self._places: dict[str, int] = {}

    def at(self, path: str) -> str:
        """Return the expression of the text at a path."""
        place = self._places.setdefault(path, len(self._places) + 1)
        return f"{self._name}[{place}]"

    def lookup(self, payload: str = "payload") -> str:
        """Return the expression of all the texts: one pass over the JSON for any number of paths."""
        return f"json_extract_string({payload}, {field_list(tuple(self._places))}) AS {self._name}"

    def column(self, column: SheetColumn) -> str:
        """Return the expression of a column, named as the column is."""
        value = column_value(column, [self.at(path) for path in column.paths])
        return f"{value} AS {quoted(column.name)}"


def sheet_select(sheet: Sheet, found: Found) -> str:
    """Return the select list of a sheet's columns."""
    return "".join(f", {found.column(column)}" for column in sheet.columns)


def counts_read(metrics: Sequence[Metric], found: Found) -> str:
    """Return the list of all counts, out of a payload's texts."""
    counts = [
        column_value(metric.column, [found.at(path) for path in metric.column.paths])
        if metric.path is None and metric.column is not None
        else metric_of(found.at(metric.path or ""))
        for metric in metrics
    ]
    return f"[{', '.join(counts)}]::BIGINT[]"


def counts_stored(metrics: Sequence[Metric], row: str) -> str:
    """Return the list of all counts, out of a row of `media` that was read by the same sheet."""
    # A column of another type has lost digits, or has other text beside counts.
    counts = [
        f"{row}.{quoted(metric.column.name)}"
        if metric.column is not None and metric.column.type == "BIGINT"
        else metric_of(f"json_extract_string({row}.payload, {field_at(metric.path or '')})")
        for metric in metrics
    ]
    return f"[{', '.join(counts)}]::BIGINT[]"


def stable_text(mapping: Mapping) -> str:
    """Return the expression of a payload's text without volatile URL parameters."""
    text = "payload::VARCHAR"
    # One pattern for each character that may stand before a parameter: what begins with one certain character is looked
    # for three times as fast as what begins with either.
    for mark, pattern in mapping.volatile_patterns.items():
        text = f"regexp_replace({text}, {literal(pattern)}, '{mark}', 'g')"
    return text


def content_text(mapping: Mapping) -> str:
    """Return the expression of a payload's text without those and without its counts.

    Within a JSON string a quote is escaped, so what looks like a key with a number is one.
    """
    key, count = f'"{mapping.count_key_pattern}":', "-?[0-9]+(?:\\.0+)?"
    pair = f'{key}(?:{count}|"{count}"|null)'
    # A fraction is no count: the first alternative keeps it.
    fraction = f"(,?{key}-?[0-9]+(?:\\.[0-9]*[1-9]|(?:\\.[0-9]+)?[eE]))"
    return f"regexp_replace({stable_text(mapping)}, {literal(f'{fraction}|,{pair}|{pair},?')}, '\\1', 'g')"


def payload_hash(payload: str) -> str:
    """Return the expression of a payload's hash, a BIGINT: quick, and different should DuckDB's own ever change."""
    return f"(hash({payload}) >> 1)::BIGINT"


def digest(text: str) -> str:
    """Return the expression of a text's digest, a BIGINT."""
    return f"(md5_number_lower({text}) >> 1)::BIGINT"

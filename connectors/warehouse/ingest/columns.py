"""Generates the SQL that reads a table's columns from cells, without IO."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from connectors.warehouse.storage.quoting import literal, quoted
from models.mapping import READING_TYPES, ColumnMapping, Reading
from models.schema.json_types import EXACT, JsonType
from models.schema.table_schemas import ColumnSchema, TableSchema

if TYPE_CHECKING:
    # Publishing, which needs the comparison of columns, does not import pyarrow.
    from connectors.warehouse.ingest.layout import Cell

_COUNT = "CASE WHEN regexp_full_match({0}, '-?[0-9]+(\\.0+)?') THEN TRY_CAST({0} AS BIGINT) END"

# The conversion of text for each reading, except for times, which the decoder reads.
_READINGS = {
    Reading.TEXT: "{0}",
    # A count may be a number or a string with a number. DuckDB's cast alone would round 1.5 to 2.
    Reading.COUNT: _COUNT,
    Reading.NUMBER: "TRY_CAST({0} AS DOUBLE)",
    Reading.FLAG: "TRY_CAST({0} AS BOOLEAN)",
}


def text_of(value: str, sql_type: str) -> str:
    """Return the expression of a value's text, given its type; NULL for lists."""
    if sql_type.endswith("[]"):
        return "NULL::VARCHAR"
    if sql_type == "DOUBLE":
        # Whole numbers without a fraction, as where they are integers.
        whole = f"abs({value}) < {EXACT} AND {value} = trunc({value})"
        return f"CASE WHEN {whole} THEN {value}::BIGINT::VARCHAR ELSE {value}::VARCHAR END"
    return f"{value}::VARCHAR" if sql_type in ("BIGINT", "BOOLEAN") else value


def _no_object(cell: "Cell") -> str | None:
    """Return the condition that excludes objects and lists, which have their own columns; None if there are none."""
    if cell.type.endswith("[]"):
        return "false"
    return None if cell.nested is None else f"{cell.nested} IS NULL"


def _is_there(cell: "Cell") -> str:
    return " AND ".join(filter(None, (f"{cell.name} IS NOT NULL", _no_object(cell))))


def _is_value(cell: "Cell") -> str:
    return f"{_is_there(cell)} AND {cell.name} <> ''" if cell.type == "VARCHAR" else _is_there(cell)


def _reading(cell: "Cell", how: Reading) -> str:
    no_object = _no_object(cell)
    if how is Reading.TIMESTAMP:
        value = cell.time or "NULL::TIMESTAMPTZ"
    elif cell.type == READING_TYPES[how]:
        value = cell.name
    else:
        value = _READINGS[how].format(text_of(cell.name, cell.type))
    return value if no_object is None else f"CASE WHEN {no_object} THEN {value} END"


def _column_value(column: ColumnSchema, cells: Mapping[str, "Cell"]) -> str:
    """Return the expression of a column's value, given a row of cells."""
    found = [cells[path] for path in column.paths if path in cells]
    if not found:
        return f"NULL::{column.type}"
    if column.mapping is not None:
        return f"coalesce({', '.join(_reading(cell, column.mapping.reading) for cell in found)})"
    [cell] = found
    return cell.time or cell.name if column.type == READING_TYPES[Reading.TIMESTAMP] else cell.name


def columns_select(schema: TableSchema, cells: Mapping[str, "Cell"]) -> str:
    """Return the select list of a schema's columns, given a row of cells; each entry begins with a comma."""
    return "".join(f", {_column_value(column, cells)} AS {quoted(column.name)}" for column in schema.columns)


def count_of(column: str, sql_type: str) -> str:
    """Return the expression of a column's value as a count; NULL if the value is not a count."""
    if sql_type == "TIMESTAMP WITH TIME ZONE":
        return "NULL::BIGINT"
    return column if sql_type == "BIGINT" else _COUNT.format(text_of(column, sql_type))


def names_of(metrics: Sequence[ColumnSchema]) -> str:
    """Return the SQL list of the names of all counts, in the order of `counts_of`."""
    return f"[{', '.join(literal(metric.name) for metric in metrics)}]"


def counts_of(metrics: Sequence[ColumnSchema], row: str) -> str:
    """Return the SQL list of all counts, given a row with the schema's columns.

    A count that a canonical column shows is that column's alone. Otherwise it would have a second name from the merge
    on in which its field gets a column of its own, so that the counts depended on the division of the pages.
    """
    canonical = [(metric.name, metric.mapping.paths) for metric in metrics if metric.mapping is not None]
    counts = []
    for metric in metrics:
        count = count_of(f"{row}.{quoted(metric.name)}", metric.type)
        for name, paths in canonical:
            if metric.field is not None and metric.field.path in paths:
                count = f"nullif({count}, {row}.{quoted(name)})"
        counts.append(count)
    return f"[{', '.join(counts)}]::BIGINT[]"


def checks(
    cells: Mapping[str, "Cell"], mapped: Sequence[ColumnMapping], ids: Sequence[str]
) -> Mapping[tuple[str, JsonType], str]:
    """Return conditions on a row of cells, by path and JSON type: if one is true, the path has a value of that type.

    These are facts about the mapping: a value that is ignored because the mapping prefers another one, and a value that
    its mapped column cannot store. Those that are in the registry already are not checked.
    """
    found = {}
    for paths in (ids, *(column.paths for column in mapped)):
        here = [cells[path] for path in paths if path in cells]
        for number, cell in enumerate(here):
            # Paths within the cell's own object do not count as another value.
            others = [other for other in here[:number] if not other.path.startswith(f"{cell.path}/")]
            if others and JsonType.SHADOWED not in cell.json_types:
                before = " OR ".join(f"({_is_there(other)})" for other in others)
                found[cell.path, JsonType.SHADOWED] = f"{_is_value(cell)} AND ({before})"
    for column in mapped:
        for cell in (cells[path] for path in column.paths if path in cells):
            is_read = column.reading is Reading.TEXT or cell.type == READING_TYPES[column.reading]
            if not is_read and JsonType.UNREADABLE not in cell.json_types:
                unreadable = f"{_is_value(cell)} AND {_reading(cell, column.reading)} IS NULL"
                found[cell.path, JsonType.UNREADABLE] = unreadable
    return found

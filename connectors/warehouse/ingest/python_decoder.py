"""The decoder in Python: slower, for items that the Arrow decoder rejects; it also finds the fields of items.

It accepts any JSON: values of a new type, duplicate keys (the first one is used), numbers that fit into neither 64 bits
nor a double.
"""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from connectors.warehouse.ingest.arrays import array_of
from connectors.warehouse.ingest.layout import Cell, CellTable, Layout, arrow_type
from models.schema.fields import MEDIA, FieldObservation
from models.schema.json_types import EXACT, Found, Json, JsonType, WideNumber, values_of
from models.schema.pointer import to_pointer

# Integers of this many digits or more are kept as text: Python refuses to convert more than 4,300 digits.
_MOST_DIGITS = 4000

# Items are processed recursively, and Python limits the depth of recursion.
_MOST_NESTED = 200

# The text of empty values.
EMPTY = ("{}", "[]")

# JSON types that do not fill the cell at their path.
_NO_VALUE = frozenset({JsonType.NULL, JsonType.EMPTY_LIST, JsonType.OBJECT, JsonType.ROWS})


def _first(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for key, value in pairs:
        found.setdefault(key, value)
    return found


def _number(text: str) -> float | WideNumber:
    value = float(text)
    return value if math.isfinite(value) else WideNumber(text)


def _whole(text: str) -> int | WideNumber:
    return int(text) if len(text) < _MOST_DIGITS else WideNumber(text)


_parse = json.JSONDecoder(object_pairs_hook=_first, parse_float=_number, parse_int=_whole).decode


def number_text(value: float) -> str:
    """Return a number's text, the same for equal numbers: whole numbers below 2^53 have no fraction."""
    return str(int(value)) if abs(value) < EXACT and value == int(value) else repr(value)


def _canonical(value: Json) -> str:
    if isinstance(value, dict):
        # A key with a null or empty value equals a missing key.
        inner = ((key, _canonical(value[key])) for key in sorted(value) if value[key] is not None)
        return (
            "{"
            + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{text}" for key, text in inner if text not in EMPTY)
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(_canonical, value if any(each is not None for each in value) else ())) + "]"
    if isinstance(value, float):
        return number_text(value)
    return str(value) if isinstance(value, WideNumber) else json.dumps(value, ensure_ascii=False)


def text_of(value: Json) -> str | None:
    """Return the text of a value: text unchanged, anything else as JSON with sorted keys."""
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    return _canonical(value)


def _cell_value(value: Json, sql_type: str) -> Any:  # noqa: ANN401 - any value that Arrow accepts
    if sql_type.endswith("[]"):
        return [_cell_value(element, sql_type[:-2]) for element in value] if isinstance(value, list) else None
    if sql_type == "DOUBLE":
        return None if value is None else float(value)  # type: ignore[arg-type]
    return text_of(value) if sql_type in ("VARCHAR", "TIMESTAMP WITH TIME ZONE") else value


@dataclass(frozen=True, slots=True)
class Element:
    """An object in one of an item's lists: the list's path, the position in it, and the object's values by path."""

    path: str
    position: int
    values: dict[str, Found]


@dataclass(frozen=True, slots=True)
class DecodedItem:
    """A decoded item: its order key, its values by path, and the elements of its lists of objects."""

    order_key: int
    values: dict[str, Found]
    elements: list[Element] = field(default_factory=list)


def read(order_key: int, raw: bytes) -> DecodedItem | None:
    """Decode an item; return None if it is not an object, or nested deeper than 200 levels."""
    try:
        value: Json = _parse(raw.decode())
    except RecursionError:
        return None
    if not isinstance(value, dict) or _is_too_deep(value):
        return None
    item = DecodedItem(order_key, {to_pointer(found.keys): found for found in values_of(value)})
    for path, found in item.values.items():
        if JsonType.ROWS in found.json_types and isinstance(found.value, list):
            for position, element in enumerate(found.value):
                if isinstance(element, dict):
                    inner = {to_pointer(each.keys): each for each in values_of(element, in_element=True)}
                    item.elements.append(Element(path, position, inner))
    return item


def _is_too_deep(value: Json) -> bool:
    level: list[Json] = [value]
    for _ in range(_MOST_NESTED):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def observations(item: DecodedItem, at: datetime) -> Iterable[FieldObservation]:
    """Yield the observations of an item's own fields, in the order of its text."""
    for path, found in item.values.items():
        for json_type in found.json_types:
            yield FieldObservation(MEDIA, path, json_type, at)


def element_observations(
    item: DecodedItem, table: str, lists: Sequence[str], at: datetime
) -> Iterable[FieldObservation]:
    """Yield the observations of the elements of an item's lists that fill a child table."""
    for element in item.elements:
        if element.path in lists:
            for path, found in element.values.items():
                for json_type in found.json_types:
                    yield FieldObservation(table, path, json_type, at)


def _array(cell: Cell, rows: Sequence[dict[str, Found]]) -> Any:  # noqa: ANN401 - pyarrow has no types
    values = [row[cell.path].value if cell.path in row and _is_value(row[cell.path], cell) else None for row in rows]
    return array_of([_cell_value(value, cell.type) for value in values], arrow_type(cell.type))


def _is_value(found: Found, cell: Cell) -> bool:
    """Return whether a value fills its cell: objects and lists of objects do so only in text cells, of mixed types."""
    if found.json_types & {JsonType.OBJECT, JsonType.ROWS}:
        return cell.type == "VARCHAR"
    if JsonType.EMPTY_LIST in found.json_types:
        return cell.type == "VARCHAR" or cell.type.endswith("[]")
    return True


def _overflow(item: DecodedItem, layout: Layout) -> str | None:
    """Return the values of an item that have no cell, as JSON by path; None if all have one."""
    left: dict[str, Json] = {}
    tables = {path: layout.table_of(path) for path, found in item.values.items() if JsonType.ROWS in found.json_types}
    for path, found in item.values.items():
        has_place = path in layout.media.cells or found.json_types <= _NO_VALUE
        if not has_place or (tables.get(path, layout) is None and path not in layout.media.cells):
            left[path] = found.value
    for element in item.elements:
        table = tables[element.path]
        for path, found in element.values.items():
            if table is not None and path not in table.cells and not found.json_types <= _NO_VALUE:
                left[f"{element.path}/{element.position}{path}"] = found.value
    return _canonical(left) if left else None


def _table(cells: CellTable, own: dict[str, Any], rows: Sequence[dict[str, Found]]) -> Any:  # noqa: ANN401
    return pa.table({**own, **{cell.name: _array(cell, rows) for cell in cells.cells.values()}})


def cells_of(items: Sequence[DecodedItem], layout: Layout) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return the cells of items as a table: order key, overflow, and a column for each cell of the layout."""
    own = {
        "order_key": array_of([item.order_key for item in items], pa.int64()),
        "overflow": array_of([_overflow(item, layout) for item in items], pa.string()),
    }
    return _table(layout.media, own, [item.values for item in items])


def element_cells_of(items: Sequence[DecodedItem], table: CellTable) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return the cells of the elements that fill a child table: the item's order key, position from 0, cells.

    Positions continue from one list of an item to the next.
    """
    order_keys: list[int] = []
    positions: list[int] = []
    rows: list[dict[str, Found]] = []
    for item in items:
        before = 0
        for path in table.lists:
            length = 0
            if path in item.values and JsonType.ROWS in item.values[path].json_types:
                value = item.values[path].value
                length = len(value) if isinstance(value, list) else 0
            for element in item.elements:
                if element.path == path:
                    order_keys.append(item.order_key)
                    positions.append(before + element.position)
                    rows.append(element.values)
            before += length
    own = {"order_key": array_of(order_keys, pa.int64()), "position": array_of(positions, pa.int32())}
    return _table(table, own, rows)

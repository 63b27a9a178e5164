"""Rewrites items that Arrow refuses as JSON that it reads: a key for each cell, with a value of the cell's type.

It accepts any JSON: values of a new type, duplicate keys (the first one is used), numbers that fit into neither 64 bits
nor a double. It also finds the fields of these items.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from connectors.warehouse.ingest.layout import CellTable, Layout
from models.pointer import to_pointer
from models.schema import any_json
from models.schema.fields import FieldObservation
from models.schema.json_types import Found, Json, JsonType, WideNumber, number_text, values_of

# JSON types that need no cell.
_NO_VALUE = frozenset({JsonType.NULL, JsonType.EMPTY_LIST, JsonType.OBJECT, JsonType.ROWS})

_AS_THEY_ARE = ("BOOLEAN", "BIGINT", "DOUBLE")


Values = Mapping[str, Found]


@dataclass(frozen=True, slots=True)
class ParsedItem:
    """An item: its order key, its values by path, and the elements of its lists of objects by path.

    An element is None or an object, with its values by path.
    """

    order_key: int
    values: Values
    elements: Mapping[str, list[Values | None]]


def parse(order_key: int, raw: bytes) -> ParsedItem | None:
    """Parse an item that is an object; return None if it is nested deeper than 200 levels."""
    try:
        item = any_json.parse(raw.decode())
    except RecursionError:
        return None
    values = _by_path(values_of(item))
    elements = {path: _elements_in(found.value) for path, found in values.items() if JsonType.ROWS in found.json_types}
    return ParsedItem(order_key, values, elements)


def _by_path(values: Iterable[Found]) -> Values:
    return {to_pointer(found.keys): found for found in values}


def _elements_in(value: Json) -> list[Values | None]:
    elements = value if isinstance(value, list) else []
    return [_by_path(values_of(each, in_element=True)) if isinstance(each, dict) else None for each in elements]


def observations(item: ParsedItem, table: str, at: datetime) -> Iterator[FieldObservation]:
    """Yield the observations of an item's own fields, in the order of its text; `table` is that of the item."""
    return _observations(table, item.values, at)


def element_observations(item: ParsedItem, tables: Mapping[str, CellTable], at: datetime) -> Iterator[FieldObservation]:
    """Yield the observations of the elements that fill a child table; `tables` are these by the path of a list."""
    for path, elements in item.elements.items():
        for values in elements if path in tables else ():
            yield from _observations(tables[path].resource, values or {}, at)


def _observations(resource: str, values: Values, at: datetime) -> Iterator[FieldObservation]:
    for path, found in values.items():
        for json_type in found.json_types:
            yield FieldObservation(resource, path, json_type, at)


def rewritten(item: ParsedItem, layout: Layout) -> bytes:
    """Return an item as a line of JSON that matches `layout.rewritten`; the layout must know all its fields."""
    children = {table.resource: list(_elements(item, table)) for table in layout.children.values()}
    row = {"overflow": _overflow(item, layout), **_cells(item.values, layout.media), **children}
    return json.dumps(row, ensure_ascii=False).encode()


def _elements(item: ParsedItem, table: CellTable) -> Iterator[dict[str, Json]]:
    first = 0
    for path in table.lists:
        elements = item.elements.get(path, [])
        for position, values in enumerate(elements, first):
            if values is not None:
                yield {"position": position, **_cells(values, table)}
        first += len(elements)


def _cells(values: Values, table: CellTable) -> dict[str, Json]:
    found = [(table.cells[path], one.value) for path, one in values.items() if path in table.cells]
    nested = [cell.nested for cell, value in found if cell.nested is not None and isinstance(value, dict | list)]
    return {**{cell.name: _cell_value(value, cell.type) for cell, value in found}, **dict.fromkeys(nested, True)}


def _cell_value(value: Json, sql_type: str) -> Json:
    if value is None or sql_type in _AS_THEY_ARE:
        return value
    if sql_type.endswith("[]"):
        elements = value if isinstance(value, list) else []
        return [_cell_value(element, sql_type.removesuffix("[]")) for element in elements]
    return str(value) if isinstance(value, str) else _canonical(value)


def _overflow(item: ParsedItem, layout: Layout) -> str | None:
    """Return the values of an item that have no cell, as JSON by path; None if all have one."""
    left = _without_cell(item.values, layout.media)
    for path, elements in item.elements.items():
        if path in layout.tables:
            for position, values in enumerate(elements):
                inner = _without_cell(values or {}, layout.tables[path])
                left.update({f"{path}/{position}{below}": value for below, value in inner.items()})
        elif path not in layout.media.cells:
            left[path] = item.values[path].value
    return _canonical(left) if left else None


def _without_cell(values: Values, table: CellTable) -> dict[str, Json]:
    return {
        path: found.value
        for path, found in values.items()
        if path not in table.cells and not found.json_types <= _NO_VALUE
    }


def _canonical(value: Json) -> str:
    """Return a value as JSON with sorted keys; a key with a null or empty value equals a missing key."""
    if isinstance(value, dict):
        inner = ((key, _canonical(value[key])) for key in sorted(value) if value[key] is not None)
        found = (f"{json.dumps(key, ensure_ascii=False)}:{text}" for key, text in inner if text not in ("{}", "[]"))
        return "{" + ",".join(found) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_canonical, value if any(each is not None for each in value) else ())) + "]"
    if isinstance(value, float):
        return number_text(value)
    return str(value) if isinstance(value, WideNumber) else json.dumps(value, ensure_ascii=False)

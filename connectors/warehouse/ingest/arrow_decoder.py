"""The fast decoder: pyarrow's JSON reader, without the GIL, for items with known fields and types.

Its input must be valid JSON. It rejects items that are not objects, because they would crash pyarrow, and items that do
not match the layout (docs/decisions lists these inputs and how they are handled).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from connectors.warehouse.ingest.arrays import array_of
from connectors.warehouse.ingest.layout import NO_ELEMENT, Cell, CellTable, Layout, arrow_type
from connectors.warehouse.ingest.python_decoder import number_text
from models.schema.json_types import EXACT
from models.schema.pointer import to_keys

_BRACE = ord("{")


def read(raw: Sequence[bytes], layout: Layout) -> "ArrowItems | None":
    """Decode items, bytes or views of bytes; return None if one is not an object or does not match the layout."""
    lines = b"\n".join([*raw, b""])
    if lines.count(b"\n") > len(raw):
        # The reader expects one item per line. Within JSON strings line breaks are escaped, so others are whitespace.
        lines = b"\n".join([*(bytes(one).replace(b"\n", b" ") for one in raw), b""])
    if not _are_objects(lines, raw):
        return None
    try:
        table = pj.read_json(
            pa.py_buffer(lines),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            parse_options=pj.ParseOptions(explicit_schema=layout.schema, unexpected_field_behavior="error"),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if not table.num_columns:
        return ArrowItems(len(raw), None)
    (batch,) = table.to_batches()
    nested = batch.to_struct_array()
    return None if _is_misread(nested) else ArrowItems(len(raw), nested)


def _are_objects(lines: bytes, raw: Sequence[bytes]) -> bool:
    # Counting `\n{` in the lines takes four times as long.
    begin = 0
    for one in raw:
        if lines[begin] != _BRACE:
            return False
        begin += len(one) + 1
    return True


@dataclass(frozen=True, slots=True)
class ArrowItems:
    """Items as one Arrow array of nested structs; `nested` is None if the layout has no fields."""

    count: int
    nested: Any

    def cells(self, order_keys: Any, table: CellTable) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Return the cells of the items as a table: order key, overflow, and a column for each cell."""
        own = {"order_key": order_keys, "overflow": pa.nulls(self.count, pa.string())}
        return pa.table({**own, **_cells(self.nested, table, self.count)})

    def element_cells(self, order_keys: Any, table: CellTable) -> Iterator[Any]:  # noqa: ANN401 - pyarrow has no types
        """Yield a table of cells for each list that fills a child table: order key, position from 0, cells."""
        before = none = array_of([0] * self.count, pa.int32())
        for path in table.lists:
            lists = _at(self.nested, to_keys(path))
            if lists is None or not pa.types.is_list(lists.type) or not pa.types.is_struct(lists.type.value_type):
                continue
            parents = pc.list_parent_indices(lists)
            elements = pc.list_flatten(lists)
            lengths = pc.coalesce(pc.list_value_length(lists), none)
            # Positions continue from one list of an item to the next.
            first = pc.subtract(pc.subtract(pc.cumulative_sum(lengths), lengths), before)
            positions = pc.subtract(array_of(range(len(elements)), pa.int32()), pc.take(first, parents))
            before = pc.add(before, lengths)
            own = {"order_key": pc.take(order_keys, parents), "position": pc.cast(positions, pa.int32())}
            found = pa.table({**own, **_cells(elements, table, len(elements))})
            yield found.filter(pc.is_valid(elements))


def _cells(nested: Any, table: CellTable, length: int) -> dict[str, Any]:  # noqa: ANN401 - pyarrow has no types
    return {cell.name: _cast(cell, _at(nested, to_keys(cell.path)), length) for cell in table.cells.values()}


def _is_misread(array: Any) -> bool:  # noqa: ANN401 - pyarrow has no types
    """Return whether a double may be an imprecise integer, or a list is not empty although all lists so far were."""
    if pa.types.is_struct(array.type):
        return any(map(_is_misread, array.flatten()))
    if pa.types.is_list(array.type):
        elements = pc.list_flatten(array)
        return bool(elements.null_count < len(elements)) if array.type == NO_ELEMENT else _is_misread(elements)
    if not pa.types.is_float64(array.type):
        return False
    largest = pc.max(pc.abs(array)).as_py()
    return largest is not None and largest >= EXACT


def _at(array: Any, keys: Sequence[str]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return the values at these keys, null if an object above is null; None if the layout has no such key."""
    for key in keys:
        if array is None or not pa.types.is_struct(array.type) or array.type.get_field_index(key) < 0:
            return None
        array = pc.struct_field(array, [array.type.get_field_index(key)])
    return array


def _cast(cell: Cell, array: Any, length: int) -> Any:  # noqa: ANN401 - pyarrow has no types
    wanted = arrow_type(cell.type)
    if array is None or pa.types.is_null(array.type) or array.type == NO_ELEMENT:
        return pa.nulls(length, wanted)
    if array.type == wanted:
        return array
    if pa.types.is_float64(array.type):
        return array_of([None if value is None else number_text(value) for value in array.to_pylist()], wanted)
    return pc.cast(array, wanted)

"""Reads lines of JSON with pyarrow, without the GIL, and takes cells from what it reads.

Items must be valid JSON. Those that would crash pyarrow, that it would misread, or that do not match the layout are
refused (docs/decisions lists these inputs and how they are handled).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from connectors.warehouse.ingest.arrays import are_instants, array_of
from connectors.warehouse.ingest.layout import NO_ELEMENT, SQL_TIME, Cell, CellTable, Layout, arrow_type
from models.pointer import to_keys
from models.schema.json_types import EXACT, JsonType, number_text

_BRACE = ord("{")


def read(raw: Sequence[bytes], layout: Layout) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Read items, bytes or views of bytes, as an array of structs; return None if any of them is refused."""
    lines = b"\n".join([*raw, b""])
    if lines.count(b"\n") > len(raw):
        # The reader expects one item per line. Within JSON strings line breaks are escaped, so others are whitespace.
        lines = b"\n".join([*(bytes(one).replace(b"\n", b" ") for one in raw), b""])
    if not layout.media.expected or not _are_objects(lines, raw):
        return None
    try:
        nested = _read_lines(lines, pa.schema(layout.media.expected)).to_struct_array()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return None if _is_misread(nested, layout) else nested


def _are_objects(lines: bytes, raw: Sequence[bytes]) -> bool:
    # Counting `\n{` in the lines takes four times as long.
    begin = 0
    for one in raw:
        if lines[begin] != _BRACE:
            return False
        begin += len(one) + 1
    return True


def _read_lines(lines: bytes, schema: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return lines of JSON objects as one record batch."""
    table = pj.read_json(
        pa.py_buffer(lines),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    )
    (batch,) = table.to_batches()
    return batch


def _is_misread(nested: Any, layout: Layout) -> bool:  # noqa: ANN401 - pyarrow has no types
    """Return whether a value is not what its field has had so far, although Arrow can read it as if it was."""
    if _has_elements(nested) or not _are_expected(nested, layout.media):
        return True
    lists = ((table, _lists_of_objects(nested, path)) for path, table in layout.tables.items())
    return not all(_are_expected(pc.list_flatten(one), table) for table, one in lists if one is not None)


def _has_elements(array: Any) -> bool:  # noqa: ANN401 - pyarrow has no types
    """Return whether a list is not empty although all lists so far were."""
    if pa.types.is_struct(array.type):
        return any(map(_has_elements, array.flatten()))
    if not pa.types.is_list(array.type):
        return False
    elements = pc.list_flatten(array)
    return elements.null_count < len(elements) if array.type == NO_ELEMENT else _has_elements(elements)


def _are_expected(objects: Any, table: CellTable) -> bool:  # noqa: ANN401 - pyarrow has no types
    return all(_is_expected(cell, _at(objects, to_keys(cell.path))) for cell in table.cells.values())


def _is_expected(cell: Cell, array: Any) -> bool:  # noqa: ANN401 - pyarrow has no types
    if array is None:
        return True
    values = pc.list_flatten(array) if pa.types.is_list(array.type) else array
    if pa.types.is_string(values.type):
        return cell.type != SQL_TIME or are_instants(values)
    is_double = pa.types.is_float64(values.type)
    if not is_double and (not cell.type.startswith("BIGINT") or {JsonType.LONG, JsonType.LONGS} & {*cell.json_types}):
        return True
    largest = max(abs(each.as_py() or 0) for each in pc.min_max(values).values())
    # A double of 2^53 may be an imprecise integer.
    return largest < EXACT or (largest == EXACT and not is_double)


def cells_of(nested: Any, order_keys: Any, table: CellTable) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return the cells of items as a table: order key, overflow, and a column for each cell."""
    own = {"order_key": order_keys, "overflow": pa.nulls(len(nested), pa.string())}
    return pa.table({**own, **_cells(nested, table)})


def element_cells_of(nested: Any, order_keys: Any, table: CellTable) -> Iterator[Any]:  # noqa: ANN401 - pyarrow has no types
    """Yield a table of cells for each list that fills a child table: order key, position from 0, cells.

    Positions continue from one list of an item to the next.
    """
    before = none = array_of([0] * len(nested), pa.int32())
    for path in table.lists:
        if (lists := _lists_of_objects(nested, path)) is None:
            continue
        parents = pc.list_parent_indices(lists)
        elements = pc.list_flatten(lists)
        lengths = pc.coalesce(pc.list_value_length(lists), none)
        first = pc.subtract(pc.subtract(pc.cumulative_sum(lengths), lengths), before)
        positions = pc.subtract(array_of(range(len(elements)), pa.int32()), pc.take(first, parents))
        before = pc.add(before, lengths)
        own = {"order_key": pc.take(order_keys, parents), "position": pc.cast(positions, pa.int32())}
        yield pa.table({**own, **_cells(elements, table)}).filter(pc.is_valid(elements))


def _lists_of_objects(nested: Any, path: str) -> Any:  # noqa: ANN401 - pyarrow has no types
    lists = _at(nested, to_keys(path))
    is_one = lists is not None and pa.types.is_list(lists.type) and pa.types.is_struct(lists.type.value_type)
    return lists if is_one else None


def _cells(nested: Any, table: CellTable) -> dict[str, Any]:  # noqa: ANN401 - pyarrow has no types
    found = {}
    for cell in table.cells.values():
        found[cell.name] = _cast(cell, _at(nested, to_keys(cell.path)), len(nested))
        if cell.nested is not None:
            # An item with an object or a list in place of a text is refused.
            found[cell.nested] = pa.nulls(len(nested), pa.bool_())
    return found


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


def read_rewritten(lines: Sequence[bytes], order_keys: Any, layout: Layout) -> tuple[Any, Mapping[str, Any]]:  # noqa: ANN401
    """Read rewritten items, whose keys are the names of cells; return the tables of cells of media and of children."""
    schema = layout.rewritten
    rows = _read_lines(b"\n".join([*lines, b""]), schema) if lines else schema.empty_table().combine_chunks()
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    children = {name: _elements(columns.pop(name), order_keys) for name in layout.children}
    return pa.table({"order_key": order_keys, **columns}), children


def _elements(lists: Any, order_keys: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    elements = pa.Table.from_struct_array(pc.list_flatten(lists))
    return elements.add_column(0, "order_key", pc.take(order_keys, pc.list_parent_indices(lists)))

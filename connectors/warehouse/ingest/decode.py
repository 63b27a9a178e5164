"""Decodes raw items into cells: the Arrow decoder for items that match the registry, the Python decoder for the rest.

A batch that the Arrow decoder rejects is halved until few items are left. The Python decoder decodes those and finds
new fields and types; with these the Arrow decoder can decode the rest.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

import pyarrow as pa

from connectors.warehouse.ingest import arrow_decoder, python_decoder
from connectors.warehouse.ingest.arrays import array_of
from connectors.warehouse.ingest.layout import CellTable, Layout, layout
from models.schema.fields import FieldObservation, OwnNames, Registry, register
from models.schema.mapping import Mapping as MediaMapping

# As many items as the fast decoder is given at once, and as few as are not worth another attempt.
_AT_ONCE = 8192
_FEW = 24


@dataclass(frozen=True, slots=True)
class Decoded:
    """Cells by table, and what was learned: the registry, and the layout that follows from it.

    Items that are no objects, or nested too deep, have no cells.
    """

    media: Any
    children: Mapping[str, Any]
    registry: Registry
    layout: Layout


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Items that the fast decoder took, by a layout."""

    order_keys: Sequence[int]
    raw: Sequence[bytes]
    layout: Layout
    items: arrow_decoder.ArrowItems


class Decoder:
    """Decodes the items of one batch. Feed it with `add`, in the order of landing; `finish` returns everything."""

    def __init__(self, mapping: MediaMapping, registry: Registry, own: OwnNames, at: Callable[[int], datetime]) -> None:
        """Begin with what is known; `at` says of an order key when its page was received."""
        self._mapping = mapping
        self._own = own
        self._at = at
        self._registry = registry
        self._layout = layout(mapping, registry)
        self._chunks: list[_Chunk] = []
        self._by_python: list[python_decoder.DecodedItem] = []

    def add(self, order_keys: Sequence[int], raw: Sequence[bytes]) -> None:
        """Decode items; those that are no objects get no cells."""
        if {one[:1] for one in raw} != {b"{"}:
            objects = [(key, one) for key, one in zip(order_keys, raw, strict=True) if one.startswith(b"{")]
            order_keys, raw = [order_key for order_key, _ in objects], [one for _, one in objects]
        for begin in range(0, len(raw), _AT_ONCE):
            self._decode(order_keys[begin : begin + _AT_ONCE], raw[begin : begin + _AT_ONCE])

    def _decode(self, order_keys: Sequence[int], raw: Sequence[bytes]) -> None:
        items = arrow_decoder.read(raw, self._layout)
        if items is not None:
            self._chunks.append(_Chunk(order_keys, raw, self._layout, items))
        elif len(raw) <= _FEW:
            self._read_carefully(order_keys, raw)
        else:
            half = len(raw) // 2
            self._decode(order_keys[:half], raw[:half])
            self._decode(order_keys[half:], raw[half:])

    def _read_carefully(self, order_keys: Sequence[int], raw: Sequence[bytes]) -> None:
        items = [python_decoder.read(order_key, one) for order_key, one in zip(order_keys, raw, strict=True)]
        found = [item for item in items if item is not None]
        self._by_python += found
        self.learn(chain.from_iterable(python_decoder.observations(item, self._at(item.order_key)) for item in found))
        for table in self._layout.children.values():
            self.learn(
                chain.from_iterable(
                    python_decoder.element_observations(item, table.resource, table.lists, self._at(item.order_key))
                    for item in found
                )
            )

    def learn(self, met: Iterable[FieldObservation]) -> None:
        """Add observations to the registry; the layout follows from it."""
        before = self._registry
        self._registry = register(before, met, self._own)
        if self._registry != before:
            self._layout = layout(self._mapping, self._registry)

    @property
    def registry(self) -> Registry:
        """What is known by now."""
        return self._registry

    def finish(self) -> Decoded:
        """Return all cells, by the last layout."""
        self._repeat()
        tables = self._layout.children.values()
        media = [
            chunk.items.cells(array_of(chunk.order_keys, pa.int64()), self._layout.media) for chunk in self._chunks
        ]
        media.append(python_decoder.cells_of(self._by_python, self._layout))
        return Decoded(
            pa.concat_tables(media),
            {table.resource: self._elements(table) for table in tables},
            self._registry,
            self._layout,
        )

    def _elements(self, table: CellTable) -> Any:  # noqa: ANN401 - pyarrow has no types
        found = [
            cells
            for chunk in self._chunks
            for cells in chunk.items.element_cells(array_of(chunk.order_keys, pa.int64()), table)
        ]
        return pa.concat_tables([*found, python_decoder.element_cells_of(self._by_python, table)])

    def _repeat(self) -> None:
        """Decode again what was decoded by a layout in which a cell had another type than it has now."""
        while stale := [chunk for chunk in self._chunks if not _holds(chunk.layout, self._layout)]:
            self._chunks = [chunk for chunk in self._chunks if chunk not in stale]
            for chunk in stale:
                self._decode(chunk.order_keys, chunk.raw)


def _holds(earlier: Layout, later: Layout) -> bool:
    """Say whether what was decoded by an earlier layout is what the later one says."""
    if earlier is later:
        return True
    pairs = [(earlier.media, later.media)]
    pairs += [(table, later.children[name]) for name, table in earlier.children.items()]
    return all(_fits(before, path, cell.type) for before, after in pairs for path, cell in after.cells.items())


def _fits(before: CellTable, path: str, json_type: str) -> bool:
    if path not in before.cells:
        # What is met for the first time is in nothing that was decoded before. A list that was empty may be.
        return path not in before.known
    was = before.cells[path].type
    return was == json_type or (was in ("BIGINT", "BOOLEAN", "DOUBLE") and json_type == "VARCHAR")

"""Decodes raw items into cells, with Arrow.

A batch that Arrow refuses is halved until few items are left. Those are parsed in Python, which finds new fields and
types; with these Arrow can read the rest. At the end, Arrow reads what Python rewrote.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, compress
from typing import Any

import pyarrow as pa

from connectors.warehouse.ingest import arrow_json, normalizer
from connectors.warehouse.ingest.arrays import array_of, times_of
from connectors.warehouse.ingest.layout import CellTable, Layout, layout
from models.mapping import Mapping as MediaMapping
from models.schema.fields import FieldObservation, OwnNames, Registry, register

# The most items that Arrow reads at once. A batch that it refuses is halved, down to `_FEW` items, which Python parses.
_ITEMS_PER_CALL = 8192
_FEW = 24


@dataclass(frozen=True, slots=True)
class Decoded:
    """Cells by table, the registry with the fields that were found, and the layout that follows from it.

    Items that are not objects, or are nested too deeply, have no cells.
    """

    media: Any
    children: Mapping[str, Any]
    registry: Registry
    layout: Layout


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Items that Arrow read, with the layout that it used."""

    order_keys: Any
    raw: Sequence[bytes]
    layout: Layout
    nested: Any


def _is_object(raw: bytes) -> bool:
    return bytes(memoryview(raw)[:1]) == b"{"


class Decoder:
    """Decodes the items of one batch. Call `add` in the order of landing; `finish` returns all cells."""

    def __init__(self, mapping: MediaMapping, registry: Registry, own: OwnNames, at: Callable[[int], datetime]) -> None:
        """Begin with a registry; `at` returns when the page of an order key was received."""
        self._mapping = mapping
        self._own = own
        self._at = at
        self._registry = registry
        self._layout = layout(mapping, registry)
        self._chunks: list[_Chunk] = []
        self._refused: list[normalizer.ParsedItem] = []

    def add(self, order_keys: Sequence[int], raw: Sequence[bytes]) -> None:
        """Decode items, bytes or views of bytes; those that are not objects get no cells."""
        for begin in range(0, len(raw), _ITEMS_PER_CALL):
            self._decode(order_keys[begin : begin + _ITEMS_PER_CALL], raw[begin : begin + _ITEMS_PER_CALL])

    def _decode(self, order_keys: Sequence[int], raw: Sequence[bytes]) -> None:
        nested = arrow_json.read(raw, self._layout)
        if nested is not None:
            self._chunks.append(_Chunk(array_of(order_keys, pa.int64()), raw, self._layout, nested))
        elif not all(are_objects := list(map(_is_object, raw))):
            self._decode(list(compress(order_keys, are_objects)), list(compress(raw, are_objects)))
        elif len(raw) <= _FEW:
            self._parse(order_keys, raw)
        else:
            half = len(raw) // 2
            self._decode(order_keys[:half], raw[:half])
            self._decode(order_keys[half:], raw[half:])

    def _parse(self, order_keys: Sequence[int], raw: Sequence[bytes]) -> None:
        parsed = [normalizer.parse(order_key, bytes(one)) for order_key, one in zip(order_keys, raw, strict=True)]
        found = [(item, self._at(item.order_key)) for item in parsed if item is not None]
        self._refused += [item for item, _ in found]
        self._learn(chain.from_iterable(normalizer.observations(item, self._mapping.table, at) for item, at in found))
        tables = self._layout.tables
        self._learn(chain.from_iterable(normalizer.element_observations(item, tables, at) for item, at in found))

    def _learn(self, met: Iterable[FieldObservation]) -> None:
        """Add observations to the registry; the layout follows from it."""
        before = self._registry
        self._registry = register(before, met, self._own)
        if self._registry != before:
            self._layout = layout(self._mapping, self._registry)

    def finish(self) -> Decoded:
        """Return all cells in the last layout."""
        self._repeat()
        final = self._layout
        lines = [normalizer.rewritten(item, final) for item in self._refused]
        order_keys = array_of([item.order_key for item in self._refused], pa.int64())
        rewritten, children = arrow_json.read_rewritten(lines, order_keys, final)
        media = [arrow_json.cells_of(chunk.nested, chunk.order_keys, final.media) for chunk in self._chunks]
        return Decoded(
            with_times(pa.concat_tables([*media, rewritten]), final.media),
            {name: self._elements(table, children[name]) for name, table in final.children.items()},
            self._registry,
            final,
        )

    def _elements(self, table: CellTable, rewritten: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
        found = [arrow_json.element_cells_of(chunk.nested, chunk.order_keys, table) for chunk in self._chunks]
        return with_times(pa.concat_tables([*chain.from_iterable(found), rewritten]), table)

    def _repeat(self) -> None:
        """Decode items again if a cell has another type now than in the layout with which they were read."""
        while stale := [chunk for chunk in self._chunks if _is_stale(chunk.layout, self._layout)]:
            self._chunks = [chunk for chunk in self._chunks if not _is_stale(chunk.layout, self._layout)]
            for chunk in stale:
                self.add(chunk.order_keys.to_pylist(), chunk.raw)


def with_times(found: Any, table: CellTable) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return decoded cells with the columns of times added."""
    for cell in table.cells.values():
        if cell.time is not None:
            found = found.append_column(cell.time, times_of(found[cell.name].combine_chunks()))
    return found


def _is_stale(earlier: Layout, later: Layout) -> bool:
    """Return whether items that were read with an earlier layout have other cells in a later one.

    They have no values of fields that were unknown then.
    """
    pairs = [(earlier.media, later.media), *((table, later.children[name]) for name, table in earlier.children.items())]
    return any(before.type_of(path) != after.type_of(path) for before, after in pairs for path in before.known)

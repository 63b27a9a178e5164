"""How many items have a value at the paths of mapped columns: what shows that a mapping is right. No IO."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from models.mapping import BUILT_IN, Keys, to_keys
from models.mapping import Mapping as MediaMapping

_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class PathCounts:
    """How many of the `items` have a value at each path of a mapped column; `columns` are those with any value."""

    items: int
    counts: Mapping[str, int]
    columns: frozenset[str]


def paths_in(payload: bytes, paths: Mapping[str, Keys]) -> Sequence[str]:
    """Return the paths at which a record has a value; `paths` are those of a mapping, with their keys."""
    record = _decode(payload)
    return [path for path, keys in paths.items() if _has(record, keys)]


def _has(value: Any, keys: Keys) -> bool:  # noqa: ANN401 - JSON
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value is not None


def explain_paths(mapping: MediaMapping, paths: PathCounts) -> Sequence[str]:
    """Return a line for each path of a person, and for each path that any item has."""
    built_in = {path for column in BUILT_IN.columns for path in column.paths}
    items = f"{paths.items:,} item{'' if paths.items == 1 else 's'}"
    return [
        f"{column.column}: {paths.counts[path]:,} of {items} have {shown(path)}"
        for column in mapping.columns
        for path in column.paths
        if paths.counts[path] or path not in built_in
    ]


def shown(path: str) -> str:
    """Return a path as a person writes it."""
    return ".".join(("$", *to_keys(path)))

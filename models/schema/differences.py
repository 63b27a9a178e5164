"""Which fields differ between two versions of an item that were compared by their columns. No IO."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from models.schema.mapping import Mapping
from models.schema.pointer import to_pointer
from models.schema.table_schemas import counts_and_addresses

_Place = tuple[tuple[str, ...], tuple[int, ...]]


def _leaves(value: Any, keys: tuple[str, ...] = (), indexes: tuple[int, ...] = ()) -> Iterator[tuple[_Place, Any]]:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*keys, key), indexes)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, keys, (*indexes, index))
    else:
        yield (keys, indexes), value


def differing_fields(before: Any, after: Any, mapping: Mapping) -> set[tuple[str, ...]]:  # noqa: ANN401 - JSON
    """Return the keys of the fields whose values differ, between two values of JSON.

    The elements of a list are one field. Counts, and what does not count as a change, are left out.
    """
    signed, ignored = re.compile(mapping.signed_url_pattern), re.compile(mapping.ignored_pattern or r"(?!)", re.DOTALL)
    left_out = counts_and_addresses(mapping)

    def compared(value: Any) -> dict[_Place, Any]:  # noqa: ANN401 - JSON
        found = {}
        for (keys, indexes), leaf in _leaves(value):
            if not keys or left_out(keys[-1]) or ignored.fullmatch(to_pointer(keys)):
                continue
            text = signed.sub(r"\1", unicodedata.normalize("NFC", leaf)) if isinstance(leaf, str) else leaf
            if text not in (None, ""):
                found[keys, indexes] = (isinstance(leaf, bool), text)
        return found

    one, other = compared(before), compared(after)
    return {place[0] for place in one.keys() | other.keys() if one.get(place) != other.get(place)}

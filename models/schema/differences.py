"""Which fields differ between two versions of an item that were compared by their columns. No IO."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from models.mapping import Mapping
from models.pointer import to_pointer
from models.schema.json_types import DEEPEST
from models.schema.table_schemas import counts_and_addresses

_Keys = tuple[str, ...]

# Keys of objects, and numbers of elements in lists.
_Place = tuple[str | int, ...]


def _leaves(value: Any, place: _Place = ()) -> Iterator[tuple[_Place, Any]]:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*place, index))
    else:
        yield place, value


def _outermost_list(place: _Place) -> _Keys | None:
    """Return the keys of the outermost list that a place is in."""
    keys: list[str] = []
    for part in place:
        if isinstance(part, int):
            return tuple(keys)
        keys.append(part)
    return None


def _field(place: _Place) -> _Keys:
    """Return the keys of the field that a place belongs to.

    A list within an element of a list, and an object that is nested too deep, are one field: they are stored as JSON.
    """
    keys: list[str] = []
    lists = depth = 0
    for part in place:
        if isinstance(part, int):
            lists, depth = lists + 1, 0
            if lists > 1:
                break
        elif depth < DEEPEST:
            keys.append(part)
            depth += 1
    return tuple(keys)


def _rows(value: Any, keys: _Keys = ()) -> Iterator[tuple[_Keys, int]]:  # noqa: ANN401 - JSON
    """Yield the keys of each outermost list, and the number of its elements that are objects."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _rows(inner, (*keys, key))
    elif isinstance(value, list):
        yield keys, sum(isinstance(element, dict) for element in value)


def differing_fields(before: Any, after: Any, mapping: Mapping) -> set[_Keys]:  # noqa: ANN401 - JSON
    """Return the keys of the fields that make these values of JSON two versions.

    The elements of a list are one field; if one has more objects than the other, the list is. Counts, and what does not
    count as a change, are left out. If nothing else differs, lists do that are compared although the mapping ignores
    what differs in them: these can only be ignored as a whole.
    """
    signed, ignored = re.compile(mapping.signed_url_pattern), re.compile(mapping.ignored_pattern or r"(?!)", re.DOTALL)
    left_out = counts_and_addresses(mapping)

    def compared(value: Any) -> dict[_Place, Any]:  # noqa: ANN401 - JSON
        found = {}
        for place, leaf in _leaves(value):
            keys = [part for part in place if isinstance(part, str)]
            if not keys or left_out(keys[-1]):
                continue
            text = signed.sub(r"\1", unicodedata.normalize("NFC", leaf)) if isinstance(leaf, str) else leaf
            if text not in (None, ""):
                found[place] = (isinstance(leaf, bool), text)
        return found

    one, other = compared(before), compared(after)
    differing = {place for place in one.keys() | other.keys() if one.get(place) != other.get(place)}
    numbers, later = dict(_rows(before)), dict(_rows(after))
    resized = {keys for keys in numbers.keys() | later.keys() if numbers.get(keys, 0) != later.get(keys, 0)}

    def is_ignored(keys: _Keys) -> bool:
        return ignored.fullmatch(to_pointer(keys)) is not None

    fields: set[_Keys] = set()
    lists = set(resized)
    for place in differing:
        field, of_list = _field(place), _outermost_list(place)
        if of_list is not None:
            lists.add(of_list)
        if not is_ignored(field):
            fields.add(field if of_list is None or of_list not in resized else of_list)
    return fields or {keys for keys in lists if not is_ignored(keys)}

"""Reads the JSON of items in plain Python, by docs/decisions/media-columns.md and the paths of the mapping."""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from models.mapping import ColumnMapping, Reading

Item = dict[str, Any]

# Objects at this depth are stored as JSON text.
DEEPEST = 8

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)")
_SCALARS = {
    "boolean": "BOOLEAN",
    "integer": "BIGINT",
    # Integers that a double does not hold exactly.
    "long": "BIGINT",
    "number": "DOUBLE",
    "text": "VARCHAR",
    "wide": "VARCHAR",
    "instant": "TIMESTAMP WITH TIME ZONE",
}


def instant(text: str) -> datetime | None:
    """Parse an ISO 8601 time with a zone; None if it is not one."""
    if not _INSTANT.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(re.sub(r"([+-]\d\d)$", r"\1:00", text))
    except ValueError:
        return None


def at(item: object, path: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the value at a JSON Pointer; None if there is none."""
    for key in path.split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        item = item.get(name) if isinstance(item, dict) else None
    return item


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        if abs(value) <= 2**53:
            return "integer"
        return "long" if -(2**63) <= value < 2**63 else "wide"
    if isinstance(value, float):
        return "number"
    return "instant" if instant(str(value)) else "text"


def _list(values: Sequence[object]) -> str:
    present = [value for value in values if value is not None]
    if not present:
        return "empty list"
    if all(isinstance(value, dict) for value in present):
        return "rows"
    if any(isinstance(value, (dict, list)) for value in present):
        return "mixed"
    kinds = {"text" if (kind := _scalar(value)) == "instant" else kind for value in present}
    if len({sort(kind) for kind in kinds}) > 1:
        return "mixed"
    if len(kinds) == 1:
        return f"{kinds.pop()}[]"
    return {"integer number": "number[]", "integer long": "long[]"}.get(" ".join(sorted(kinds)), "wide[]")


def kind(value: object, depth: int, *, in_element: bool = False) -> str | None:
    """Return the kind of a value; None for null. Objects that are too deep, and nested lists of objects, are mixed."""
    if value is None:
        return None
    if isinstance(value, dict):
        return "object" if depth < DEEPEST else "mixed"
    if isinstance(value, list):
        found = _list(value)
        return "mixed" if in_element and found == "rows" else found
    return _scalar(value)


def leaves(item: Item, *, in_element: bool = False) -> Iterator[tuple[str, Any, str]]:
    """Yield every path of an item that has a value, with the value and its kind, in document order."""
    yield from _leaves(item, "", 1, in_element=in_element)


def _leaves(item: Item, above: str, depth: int, *, in_element: bool) -> Iterator[tuple[str, Any, str]]:
    for key, value in item.items():
        # Such a key cannot be a column name: it stays in the payload.
        if "\0" in key:
            continue
        path = f"{above}/{key.replace('~', '~0').replace('/', '~1')}"
        found = kind(value, depth, in_element=in_element)
        if found is not None:
            yield path, value, found
        if found == "object":
            yield from _leaves(value, path, depth + 1, in_element=in_element)


def _family(kind: str) -> str:
    if kind in ("object", "rows", "mixed"):
        return kind
    return "list" if kind.endswith("[]") else "scalar"


def _one(kinds: Collection[str]) -> str:
    types = {_SCALARS[kind] for kind in kinds}
    if len(types) == 1:
        return types.pop()
    return "DOUBLE" if types == {"BIGINT", "DOUBLE"} and "long" not in kinds else "VARCHAR"


def column_type(kinds: Collection[str]) -> str | None:
    """Return the type of a column with values of these kinds; None if no column is needed."""
    families = {_family(kind) for kind in kinds if kind != "empty list"}
    if "empty list" in kinds and families and not families <= {"list", "rows"}:
        families.add("list")
    if not families or families in ({"object"}, {"rows"}):
        return None
    if len(families) > 1 or families == {"mixed"}:
        return "VARCHAR"
    kinds = [kind for kind in kinds if kind != "empty list"]
    return _one(kinds) if families == {"scalar"} else _one([kind.removesuffix("[]") for kind in kinds]) + "[]"


def sort(kind: str) -> str | None:
    """Return the general name of a kind: text, number, boolean, object or list; None for an empty list."""
    if kind == "empty list":
        return None
    if kind in ("rows", "mixed") or kind.endswith("[]"):
        return "list"
    return {"instant": "text", "integer": "number", "long": "number", "wide": "number"}.get(kind, kind)


def same(stored: object, value: object, type_: str) -> bool:
    """Return whether the stored value of a column of this type equals the value."""
    if type_.endswith("[]"):
        return (
            isinstance(stored, list)
            and isinstance(value, list)
            and len(stored) == len(value)
            and all(
                same(one, other, type_[:-2]) if other is not None else one is None
                for one, other in zip(stored, value, strict=True)
            )
        )
    if type_ == "VARCHAR":
        return stored == value if isinstance(value, str) else isinstance(stored, str) and _equal(stored, value)
    if type_ == "TIMESTAMP WITH TIME ZONE":
        return stored == instant(str(value))
    return type(stored) is {"BOOLEAN": bool, "BIGINT": int, "DOUBLE": float}[type_] and stored == value


def lasting(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return an item without the URL parameters that change with every response."""
    if isinstance(value, dict):
        return {name: lasting(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [lasting(inner) for inner in value]
    return re.sub(r"([?&])(_nc_\w+|oh|oe)=[^&]*", "", value) if isinstance(value, str) else value


def _equal(text: str, value: object) -> bool:
    try:
        found = json.loads(text)
    except ValueError:
        return False
    is_same = present(lasting(found)) == present(lasting(value))
    return bool(is_same) and isinstance(found, bool) == isinstance(value, bool)


def present(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a value without null and empty parts, and without keys with a NUL character; None if nothing is left."""
    if isinstance(value, dict):
        kept = {key: present(each) for key, each in value.items() if "\0" not in key}
        return {key: each for key, each in kept.items() if each is not None} or None
    if isinstance(value, list):
        elements = [present(each) for each in value]
        return elements if any(each is not None for each in elements) else None
    return value


def text_of(value: object) -> str | None:
    """Return a value as text: a string unchanged, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def count_of(value: object) -> int | None:
    """Read an integer, written as a number or as text."""
    text = text_of(value)
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,18}", text) else None


def time_of(value: object) -> datetime | None:
    """Read a time, written as ISO 8601 with a zone, or as seconds or milliseconds since 1970."""
    text = text_of(value) or ""
    if re.fullmatch(r"\d{9,10}", text):
        return datetime.fromtimestamp(int(text), UTC)
    if re.fullmatch(r"\d{12,13}", text):
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    return instant(text)


_READ = {Reading.TEXT: text_of, Reading.COUNT: count_of, Reading.TIMESTAMP: time_of}


def read(value: object, reading: Reading) -> Any:  # noqa: ANN401 - any column type
    """Read a value for a canonical column; None if it cannot be read."""
    return _READ[reading](value)


def canonical(item: Item, column: ColumnMapping) -> Any:  # noqa: ANN401 - any column type
    """Return the value of a canonical column: the first of its paths that has one."""
    return next((found for path in column.paths if (found := read(at(item, path), column.reading)) is not None), None)


def media_id(item: Item, paths: Sequence[str]) -> str:
    """Return the id of an item as text."""
    return next(str(found) for path in paths if (found := at(item, path)) not in (None, ""))

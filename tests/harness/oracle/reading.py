"""What the JSON of a page says, by docs/mapping.md and docs/decisions.md: id, columns, counts, fields, content."""

import json
import re
import tomllib
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

Item = dict[str, Any]

# The paths of each column, the first with a value counts: the mapping is data, and docs/mapping.md lists it.
_MAPPING = tomllib.loads(Path(__file__).parents[3].joinpath("models/built_in.toml").read_text(encoding="utf-8"))
PATHS = {one["column"]: one["paths"] for one in _MAPPING["columns"]} | {"media_id": _MAPPING["media_id"]}
TEXTS = ("media_type", "caption", "permalink")
COUNTS = ("like_count", "comments_count")
_COUNT_WORDS = {*_MAPPING["count_words"], *(path.rpartition("/")[2] for name in COUNTS for path in PATHS[name])}
# Objects at this depth are stored as JSON text.
DEEPEST = 8
# An item that is nested deeper cannot be read.
_MOST_LEVELS = 200
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)")
_INT64 = range(-(2**63), 2**63)
ACCOUNT = {
    "id": re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "ig_username": re.compile(r"[A-Za-z0-9._]{1,30}"),
    "public_id": re.compile(r"[A-Za-z0-9]{12,16}"),
    "status": re.compile(r".*"),
}


def shown(body: bytes) -> str:
    """Return bytes as quarantine shows them."""
    return body.decode("utf-8", "backslashreplace")


@lru_cache(maxsize=4096)
def parsed(body: bytes) -> Item:
    """Parse the page in a response body; what is no character in it is U+FFFD."""
    return _whole(json.loads(body.removeprefix(b"\xef\xbb\xbf").decode(errors="replace")))  # type: ignore[no-any-return]


def _whole(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {_whole(key): _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [*map(_whole, value)]
    return re.sub("[\ud800-\udfff]", "\ufffd", value) if isinstance(value, str) else value


def is_account(item: object) -> bool:
    """Return whether a record is an account (API 2), whatever its status."""
    return isinstance(item, dict) and all(
        isinstance(item.get(name), str) and pattern.fullmatch(item[name]) for name, pattern in ACCOUNT.items()
    )


def content(item: Item) -> str:
    """THE RULE OF CONTENT: return columns and fields without counts and addresses; another text is another version.

    Null and empty values are left out, numbers are equal by value, and texts in their composed form.
    """
    columns = {name: _stable(str(canonical(item, name) or "")) for name in (*TEXTS, "published_at")}
    own = sources(item)
    fields = {
        unicodedata.normalize("NFC", path): stable
        for path, key, value in _leaves(item)
        if path not in own and not _counts(key, value) and (stable := _stable(value)) is not None
    }
    return json.dumps([columns, fields], sort_keys=True)


def counts(item: Item) -> dict[str, int]:
    """Return the counts of an item: canonical columns by name, and others by the path of their field."""
    own = sources(item)
    found = {name: canonical(item, name) for name in COUNTS}
    found |= {path: count_of(value) for path, key, value in _leaves(item) if path not in own and _counts(key, value)}
    return {name: count for name, count in found.items() if count is not None}


def _leaves(item: Item, above: str = "", depth: int = 1) -> Iterator[tuple[str, str, Any]]:
    """Yield path, key and value of the fields of an item."""
    for key, value in item.items():
        path = f"{above}/{key.replace('~', '~0').replace('/', '~1')}"
        if isinstance(value, dict) and depth < DEEPEST:
            yield from _leaves(value, path, depth + 1)
        else:
            yield path, key, value


def _stable(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """THE RULE OF ADDRESSES: a text that begins with http:// or https:// is no content. An element keeps its place."""
    if isinstance(value, dict):
        found = {
            unicodedata.normalize("NFC", key): stable
            for key, each in value.items()
            if not _counts(key, each) and (stable := _stable(each)) is not None
        }
        return found or None
    if isinstance(value, list):
        return [_stable(each) for each in value] or None
    if isinstance(value, str):
        is_address = value.startswith(("http://", "https://"))
        return None if not value or is_address else unicodedata.normalize("NFC", value)
    return _by_value(value) if isinstance(value, float) else value


def _by_value(value: float) -> float | int:
    return int(Decimal(repr(value))) if value.is_integer() else value


@cache
def _is_count(name: str) -> bool:
    """Return whether a key is the name of a count, in snake_case or camelCase."""
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
    return snake in _COUNT_WORDS or name in _COUNT_WORDS or bool(re.search(r"_counts?$|^counts?$", snake))


def _counts(key: str, value: object) -> bool:
    return _is_count(key) and count_of(value) is not None


def at(item: object, path: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the value at a JSON Pointer; None if there is none."""
    for key in path.split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        item = item.get(name) if isinstance(item, dict) else None
    return item


def text_of(value: object) -> str | None:
    """Return a text that is not empty, a number or a boolean as text; None for anything else."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(_by_value(value) if isinstance(value, float) else value)
    return value if isinstance(value, str) and value else None


def count_of(value: object) -> int | None:
    text = None if isinstance(value, bool) else text_of(value)
    number = int(text) if text is not None and re.fullmatch(r"-?\d{1,19}", text) else None
    return number if number is not None and number in _INT64 else None


def time_of(value: object) -> datetime | None:
    """Read a time, written as ISO 8601 with a zone, or as seconds or milliseconds since 1970."""
    text = text_of(value) or ""
    if re.fullmatch(r"[1-9](\d{9}|\d{12})", text):
        return datetime.fromtimestamp(int(text) / (1000 if len(text) > 10 else 1), UTC)
    if not _INSTANT.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(re.sub(r"([+-]\d\d)$", r"\1:00", text))
    except ValueError:
        return None


def _read(name: str, value: object) -> Any:  # noqa: ANN401 - any column type
    return count_of(value) if name in COUNTS else time_of(value) if name == "published_at" else text_of(value)


def source(item: object, name: str) -> str | None:
    """Return the path of a canonical column's value: the first of its paths where one can be read."""
    return next((path for path in PATHS[name] if _read(name, at(item, path)) is not None), None)


def sources(item: Item) -> set[str | None]:
    """Return the paths of what columns show of an item, its id included."""
    return {source(item, name) for name in PATHS}


def canonical(item: object, name: str) -> Any:  # noqa: ANN401 - any column type
    path = source(item, name)
    return None if path is None else _read(name, at(item, path))


def id_of(item: object) -> str | None:
    """THE RULE OF IDS: return the id of an item as text; None if it has none. It is a text or an exact integer."""
    path = source(item, "media_id")
    value = None if path is None else at(item, path)
    return None if isinstance(value, (bool, float)) else text_of(value)


def is_item(record: object) -> bool:
    """Return whether a record can be read, apart from its id."""
    try:
        json.dumps(record, allow_nan=False)
    except ValueError:
        # A number beyond those of JSON.
        return False
    return isinstance(record, dict) and _levels(record) <= _MOST_LEVELS


def _levels(value: object) -> int:
    if not isinstance(value, (dict, list)):
        return 0
    return 1 + max(map(_levels, value.values() if isinstance(value, dict) else value), default=0)


def published(item: Item) -> datetime | None:
    return canonical(item, "published_at")  # type: ignore[no-any-return]

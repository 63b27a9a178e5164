"""What is content of an item, and what its counts are, computed in plain Python."""

import json
import re
from functools import cache
from typing import Any

from models.mapping import BUILT_IN
from tests.model import reading
from tests.model.reading import Item, lasting

_COUNTS = [column for column in BUILT_IN.columns if column.reading == "count"]
_OTHERS = {path for column in BUILT_IN.columns if column not in _COUNTS for path in column.paths}
_COUNT_WORDS = {
    *BUILT_IN.count_words,
    *(path.rpartition("/")[2] for column in _COUNTS for path in column.paths),
}


def content(item: Item) -> str:
    """Return an item without its counts, as text."""
    return json.dumps(_uncounted(lasting(item)), sort_keys=True)


def _uncounted(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {name: _uncounted(inner) for name, inner in value.items() if not (_is_count(name) and _countable(inner))}
    return [_uncounted(inner) for inner in value] if isinstance(value, list) else value


@cache
def _is_count(name: str) -> bool:
    """Return whether a key is the name of a count, in snake_case or camelCase."""
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
    return snake in _COUNT_WORDS or name in _COUNT_WORDS or bool(re.search(r"_counts?$|^counts?$", snake))


def _countable(value: object) -> bool:
    return value is None or (not isinstance(value, bool) and reading.count_of(value) is not None)


def counts(item: Item, names: dict[str, str]) -> dict[str, int | None]:
    """Return the counts of an item by column name: canonical columns, and inferred fields with the name of a count.

    A count that a canonical column shows is only that column's.
    """
    found = {column.column: reading.canonical(item, column) for column in _COUNTS}
    for path, value, kind in reading.leaves(item):
        key = path.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
        if path not in _OTHERS and kind not in ("object", "rows", "empty list") and _is_count(key):
            count = reading.count_of(value)
            if not any(path in column.paths and found[column.column] == count for column in _COUNTS):
                found[names[path]] = count
    return {name: count for name, count in found.items() if count is not None}

"""GRAMHOUSE_HIDE: the columns of which a snapshot has no values, or salted hashes instead. No IO."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from connectors.warehouse.storage.errors import WarehouseUnusable
from models.mapping import READING_TYPES, Field, FieldType, Registry, safe_name, to_keys
from models.mapping import Mapping as MediaMapping
from models.views import MEDIA, own_columns

HASH = ":hash"

NAME = "ig_username"

# As the API calls the name of an account; items may have a column of this name, which is hidden with it.
_SYNONYMS = {"username": NAME}

OF_ACCOUNTS = (NAME, "public_id")
"""Columns of accounts that the API sends and that can be hidden. By the others accounts are found and scanned."""

# Keys, without what is no letter or digit, that are hidden with a name: the address and the code of a post lead to its
# account.
_WITH = {NAME: r"permalink|shortcode|.*username"}

# Scans are planned and judged by it.
_NEEDED = "published_at"


@dataclass(frozen=True, slots=True)
class Hiding:
    """What a snapshot hides.

    `hidden` are the names of columns and the paths of fields, each with whether a hash replaces its values. `key` is
    the pattern of the keys within JSON, as `squeeze` returns them. `setting` is what the snapshot records.
    """

    hidden: Mapping[str, bool]
    key: re.Pattern[str]
    setting: str

    @property
    def gone(self) -> list[str]:
        """Return the columns and fields without values."""
        return [name for name, is_hashed in self.hidden.items() if not is_hashed]

    def without_keys(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Return a value without the hidden keys in it."""
        if isinstance(value, list):
            return [self.without_keys(one) for one in value]
        if isinstance(value, dict):
            shown = {key: one for key, one in value.items() if self.key.fullmatch(squeeze(key)) is None}
            return {key: self.without_keys(one) for key, one in shown.items()}
        return value


def find_hidden(hide: Sequence[str], mapping: MediaMapping, registry: Registry) -> Hiding:
    """Return what the names of the setting hide: every column, field and key that is tied to one of them.

    Each is a column of a snapshot's tables, followed by `:hash` if a salted hash replaces its values. Raises
    WarehouseUnusable if one cannot be hidden.
    """
    names = {_SYNONYMS.get(name, name): one.endswith(HASH) for one in hide for name in [one.removesuffix(HASH)]}
    fields = [field for field in registry.values() if field.resource == MEDIA]
    types = _types_of(mapping, fields)
    hidden, keys = dict(names), list[str]()
    for name, is_hashed in names.items():
        _check(name, types, is_hashed=is_hashed)
        pattern = _WITH.get(name, re.escape(squeeze(name)))
        mapped = [column for column in mapping.columns if re.fullmatch(pattern, squeeze(column.column))]
        named = [field for field in fields if field.column_name == name or _has_key(field.path, pattern)]
        paths = [path for column in mapped for path in column.paths] + [field.path for field in named]
        for column in mapped:
            hidden[column.column] = is_hashed and types.get(column.column) == "VARCHAR"
        for field in fields:
            if any(_is_related(field.path, path) for path in paths):
                is_text = types.get(str(field.column_name)) == "VARCHAR" and FieldType.LIST not in field.kinds
                hidden[field.path] = is_hashed and field in named and is_text
                if field.column_name is not None:
                    hidden[field.column_name] = hidden[field.path]
        of_children = [one for one in mapping.child_columns if re.fullmatch(pattern, squeeze(one.column))]
        paths += [path for column in of_children for path in column.paths]
        keys += [pattern, *(re.escape(squeeze(*to_keys(path)[-1:])) for path in paths)]
    setting = ",".join(sorted(f"{name}{HASH}" if is_hashed else name for name, is_hashed in names.items()))
    return Hiding(hidden, re.compile("|".join(dict.fromkeys(keys))), setting)


def _types_of(mapping: MediaMapping, fields: Iterable[Field]) -> Mapping[str, str]:
    """Return the columns that can be hidden, with their types."""
    types = {column.column: READING_TYPES[column.reading] for column in mapping.columns}
    # The values of a count are in core.media_counts too, as numbers, also if its column is one of texts.
    types |= {one.column_name: "a count" if one.is_count else one.type for one in fields if one.column_name is not None}
    del types[_NEEDED]
    return types | dict.fromkeys(OF_ACCOUNTS, "VARCHAR") | {"kind": "computed"}


def _check(name: str, types: Mapping[str, str], *, is_hashed: bool) -> None:
    if name in own_columns(MEDIA) and name not in types:
        why, fix = f"{name} cannot be hidden, because gramhouse needs it", "remove it"
    elif name not in types:
        near = difflib.get_close_matches(name, types, n=1, cutoff=0.5)
        why = f"no table has a column {name!r} that can be hidden"
        fix = f"use {near[0]}" if near else "remove it; docs/data-dictionary.md lists what can be hidden"
    elif is_hashed and types[name] != "VARCHAR":
        why, fix = f"{name} cannot be hashed, because it is {types[name]}, not text", f"write {name} without {HASH}"
    else:
        return
    raise WarehouseUnusable(f"GRAMHOUSE_HIDE: {why}. Fix: {fix}.")


def _has_key(path: str, pattern: str) -> bool:
    keys = to_keys(path)
    return any(re.fullmatch(pattern, squeeze(key)) for key in (safe_name(keys), *keys))


@lru_cache(maxsize=10_000)
def squeeze(key: str) -> str:
    """Return a key in lower case, without what is no letter or digit of any script."""
    return safe_name((key,)).replace("_", "")


def _is_related(path: str, other: str) -> bool:
    """Return whether a field is another one, contains it, or is part of it."""
    return path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/")

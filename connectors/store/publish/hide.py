"""GRAMHOUSE_HIDE: the columns that a snapshot leaves out, or replaces by salted hashes. No IO.

A snapshot with hidden columns is a new file, so that no freed block of a copy keeps a value. Its tables have NULL or
the hash in the hidden columns. Schema `padded` has all views of them, which the commands and the report read; the views
of schema `main` leave the hidden columns out.
"""

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any

import msgspec

from connectors.store.merge.registry import MEDIA, Registry
from connectors.store.publish.contents import create_view
from connectors.store.storage.quoting import literal, quoted
from models.fields import FieldType, safe_name
from models.mapping import READING_TYPES
from models.mapping import Mapping as MediaMapping
from models.pointer import to_keys
from models.views import View

PADDED = "padded"
_HASH = ":hash"

# As the API calls the name of an account; items may have a column of this name, which is hidden with it.
_SYNONYMS = {"username": "ig_username"}

# Columns of accounts that the API sends and that can be hidden. The others are what accounts are found and scanned by.
_OF_ACCOUNTS = ("ig_username", "public_id")

# Keys, in snake case, that are hidden with a name: the address and the code of a post lead to its account.
_WITH = {"ig_username": r"permalink|shortcode|.*user_?name"}

# Scans are planned and judged by it.
_NEEDED = "published_at"

# What a table has in place of texts that may quote any value: as it came, or as a person typed it.
_MASK = "(hidden)"


class HideError(ValueError):
    """A name in GRAMHOUSE_HIDE cannot be hidden. The message is one line, with the fix."""


@dataclass(frozen=True, slots=True)
class Hiding:
    """What a snapshot hides.

    `names` are the hidden names of the setting, each with whether it is hashed. `columns` are those of core.media, and
    `content` the same with the paths of fields, as in the content of versions. `key` is the pattern of the keys, in
    snake case, that are hidden within JSON.
    """

    names: Mapping[str, bool]
    columns: Mapping[str, bool]
    content: Mapping[str, bool]
    key: str

    @property
    def setting(self) -> str:
        """Return the setting as it is recorded in the snapshot."""
        return ",".join(sorted(f"{name}{_HASH}" if is_hashed else name for name, is_hashed in self.names.items()))

    @property
    def hides_accounts(self) -> bool:
        """Whether a name by which a person calls an account is hidden."""
        return any(name in self.names for name in _OF_ACCOUNTS)


def find_hidden(hide: Sequence[str], mapping: MediaMapping, registry: Registry) -> Hiding:
    """Return what the names of the setting hide: every column, field and key that is tied to one of them.

    Each is a column of a snapshot's tables, followed by `:hash` if a salted hash replaces its values. Raises HideError.
    """
    names = {_SYNONYMS.get(name, name): one.endswith(_HASH) for one in hide for name in [one.removesuffix(_HASH)]}
    fields = [field for field in registry.values() if field.resource == MEDIA]
    types = {column.column: READING_TYPES[column.reading] for column in mapping.columns}
    types |= {field.column_name: field.type for field in fields if field.column_name is not None}
    types |= dict.fromkeys(_OF_ACCOUNTS, "VARCHAR") | {"kind": "computed"}
    del types[_NEEDED]
    for name, is_hashed in names.items():
        _check(name, types, is_hashed=is_hashed)
    columns: dict[str, bool] = {}
    content: dict[str, bool] = {}
    keys: list[str] = []
    for name, is_hashed in names.items():
        pattern = _WITH.get(name, re.escape(name))
        mapped = [column for column in mapping.columns if _is_named(column.column, pattern)]
        named = [field for field in fields if field.column_name == name or _has_key(field.path, pattern)]
        paths = [path for column in mapped for path in column.paths] + [field.path for field in named]
        related = [field for field in fields if any(_is_related(field.path, path) for path in paths)]
        for column in mapped:
            columns[column.column] = content[column.column] = is_hashed and types.get(column.column) == "VARCHAR"
        for field in related:
            can_be_hashed = (
                is_hashed and field in named and FieldType.LIST not in field.kinds and field.type == "VARCHAR"
            )
            content[field.path] = can_be_hashed
            if field.column_name is not None:
                columns[field.column_name] = can_be_hashed
        keys += [pattern, *(re.escape(safe_name(to_keys(path)[-1:])) for path in paths)]
    return Hiding(names, columns, content, "|".join(dict.fromkeys(keys)))


def _check(name: str, types: Mapping[str, str], *, is_hashed: bool) -> None:
    if name not in types:
        near = difflib.get_close_matches(name, types, n=1, cutoff=0.5)
        fix = f"use {near[0]}" if near else "remove it; docs/data-dictionary.md lists what can be hidden"
        raise HideError(f"GRAMHOUSE_HIDE: no table has a column {name!r} that can be hidden. Fix: {fix}.")
    if is_hashed and types[name] != "VARCHAR":
        raise HideError(
            f"GRAMHOUSE_HIDE: {name} cannot be hashed, because it is {types[name]}, not text."
            f" Fix: write {name} without {_HASH}, to leave it out."
        )


def _is_named(name: str, pattern: str) -> bool:
    return re.fullmatch(pattern, name) is not None


def _has_key(path: str, pattern: str) -> bool:
    keys = to_keys(path)
    return _is_named(safe_name(keys), pattern) or any(_is_named(safe_name((key,)), pattern) for key in keys)


def _is_related(path: str, other: str) -> bool:
    """Return whether a field is another one, contains it, or is part of it."""
    return path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/")


def functions(hiding: Hiding, salt: str) -> Mapping[str, Callable[[str], str | None]]:
    """Return the functions that the statements of `write_tables` call, by name."""
    is_hidden = lru_cache(maxsize=10_000)(partial(_is_hidden_key, re.compile(hiding.key)))
    hash_text = partial(_hash, salt)
    return {
        "hide_hash": hash_text,
        "hide_keys": partial(_without_keys, is_hidden),
        "hide_content": partial(_without_content, hiding.content, hash_text, is_hidden),
    }


def _hash(salt: str, text: str) -> str:
    return sha256((salt + unicodedata.normalize("NFC", text)).encode()).hexdigest()[:32]


def _is_hidden_key(pattern: re.Pattern[str], key: str) -> bool:
    return pattern.fullmatch(safe_name((key,))) is not None


def _without_keys(is_hidden: Callable[[str], bool], text: str) -> str:
    """Return JSON text without the hidden keys; text that is not JSON as it is."""
    try:
        return msgspec.json.encode(_pruned(msgspec.json.decode(text), is_hidden)).decode()
    except msgspec.DecodeError:
        return text


def _pruned(value: Any, is_hidden: Callable[[str], bool]) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        return [_pruned(one, is_hidden) for one in value]
    if isinstance(value, dict):
        return {key: _pruned(one, is_hidden) for key, one in value.items() if not is_hidden(key)}
    return value


def _without_content(
    hidden: Mapping[str, bool], hash_text: Callable[[str], str], is_hidden: Callable[[str], bool], text: str
) -> str:
    """Return the content of a version without its hidden columns and fields, or with their hashes."""
    kept = {}
    for name, value in msgspec.json.decode(text).items():
        if name not in hidden:
            kept[name] = _pruned(value, is_hidden)
        elif hidden[name] and isinstance(value, str):
            kept[name] = hash_text(value)
    return msgspec.json.encode(kept).decode()


def write_tables(source: str, tables: Mapping[str, Sequence[str]], hiding: Hiding, registry: Registry) -> Iterator[str]:
    """Yield the statements that create the tables of the current database, which is new.

    `source` is the name of the warehouse's database, `tables` the columns of its tables by name.
    """
    yield "CREATE SCHEMA core"
    for table, columns in tables.items():
        replaced = {name: text for name, text in _replaced(table, hiding, registry).items() if name in columns}
        chosen = ", ".join(f"{value} AS {quoted(name)}" for name, value in replaced.items())
        select = f"* REPLACE ({chosen})" if chosen else "*"
        rows = f"{quoted(source, 'core', table)}{_rows(table, hiding)}"
        yield f"CREATE TABLE core.{quoted(table)} AS SELECT {select} FROM {rows}"  # noqa: S608 - quoted


def _hidden_value(name: str, *, is_hashed: bool) -> str:
    column = quoted(name)
    return f"hide_hash({column})" if is_hashed else f"if(false, {column}, NULL)"


def _replaced(table: str, hiding: Hiding, registry: Registry) -> Mapping[str, str]:
    """Return the expressions for the hidden values of a table, by column."""
    masked = {"selection": f"if(kind = 'backfill', {literal(_MASK)}, selection)",
              "reason": f"if(reason IS NULL, NULL, {literal(_MASK)})"} if hiding.hides_accounts else {}  # fmt: skip
    match table:
        case "media":
            return _of_media(hiding, registry)
        case "media_versions":
            changed = f"list_filter(changed, lambda one: NOT list_contains([{_gone(hiding.content)}], one))"
            return {"content": "hide_content(content)", "changed": changed}
        case "accounts":
            hidden = {
                name: _hidden_value(name, is_hashed=hiding.names[name]) for name in _OF_ACCOUNTS if name in hiding.names
            }
            # In commands and the report, which name accounts.
            return hidden | ({"ig_username": "account_id"} if hiding.names.get("ig_username") is False else {})
        case "account_periods" if hiding.names.get("ig_username"):
            return {"value": "if(attribute = 'ig_username', hide_hash(value), value)"}
        case "quarantine":
            return {"payload": literal(_MASK), "digest": "0"}
        case "runs":
            return masked
        case _:
            return {}


def _of_media(hiding: Hiding, registry: Registry) -> Mapping[str, str]:
    replaced = {"overflow": "if(false, overflow, NULL)", "content_hash": "0", "payload_hash": "0"}
    for field in registry.values():
        if field.resource == MEDIA and field.column_name is not None and FieldType.LIST in field.kinds:
            replaced[field.column_name] = f"hide_keys({quoted(field.column_name)})"
    return replaced | {name: _hidden_value(name, is_hashed=is_hashed) for name, is_hashed in hiding.columns.items()}


def _rows(table: str, hiding: Hiding) -> str:
    """Return the condition that leaves out rows about columns that are left out."""
    match table:
        case "media_counts":
            return f" WHERE NOT list_contains([{_gone(hiding.columns)}], metric)"
        case "fields":
            return f" WHERE NOT list_contains([{_gone(hiding.content)}], path)"
        case "account_periods" if hiding.names.get("ig_username") is False:
            return " WHERE attribute <> 'ig_username'"
        case _:
            return ""


def _gone(hidden: Mapping[str, bool]) -> str:
    return ", ".join(["NULL", *(literal(name) for name, is_hashed in hidden.items() if not is_hashed)])


def write_views(hiding: Hiding, views: Iterable[View]) -> Iterator[str]:
    """Yield the statements that create the views of the current database, after its tables."""
    left_out = {name for name, is_hashed in {**hiding.columns, **hiding.names}.items() if not is_hashed}
    if hiding.names.get("ig_username") is False:
        left_out |= {"old_ig_username", "new_ig_username"}
    yield f"CREATE SCHEMA {PADDED}"
    for view in views:
        yield from create_view(view, PADDED)
        gone = [name for name in view.columns if name in left_out]
        excluded = f" EXCLUDE ({', '.join(map(quoted, gone))})" if gone else ""
        columns = {
            name: f"{about} Hidden: a salted hash." if hiding.columns.get(name) or hiding.names.get(name) else about
            for name, about in view.columns.items()
            if name not in gone
        }
        select = f"SELECT *{excluded} FROM {PADDED}.{quoted(view.name)}"  # noqa: S608 - quoted
        yield from create_view(replace(view, columns=columns, select=select))

"""GRAMHOUSE_HIDE: the columns that a snapshot leaves out, or replaces by salted hashes. No IO.

A snapshot with hidden columns is a new file, so that no freed block of a copy keeps a value. Its tables have NULL or
the hash in the hidden columns. Schema `padded` has all views of them, which the commands and the report read; the views
of schema `main` leave the hidden columns out.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from connectors.warehouse.publish.contents import create_view
from connectors.warehouse.queries.reader import PADDED
from connectors.warehouse.storage.quoting import literal, quoted
from models.fields import FieldType, safe_name
from models.mapping import READING_TYPES, to_keys
from models.mapping import Mapping as MediaMapping
from models.registry import Registry
from models.views import CHILDREN, MEDIA, View, own_columns
from models.views import views as declared_views

HASH = ":hash"

# As the API calls the name of an account; items may have a column of this name, which is hidden with it.
_SYNONYMS = {"username": "ig_username"}

# Columns of accounts that the API sends and that can be hidden. The others are what accounts are found and scanned by.
_OF_ACCOUNTS = ("ig_username", "public_id")

# Keys, without what is no letter or digit, that are hidden with a name: the address and the code of a post lead to its
# account.
_WITH = {"ig_username": r"permalink|shortcode|.*username"}

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
    `content` the same with the paths of fields, as in the content of versions. `key` is the pattern of the keys, as
    `_squeezed` returns them, that are hidden within JSON.
    """

    names: Mapping[str, bool]
    columns: Mapping[str, bool]
    content: Mapping[str, bool]
    key: str

    @property
    def setting(self) -> str:
        """Return the setting as it is recorded in the snapshot."""
        return ",".join(sorted(f"{name}{HASH}" if is_hashed else name for name, is_hashed in self.names.items()))

    @property
    def hides_accounts(self) -> bool:
        """Whether a name by which a person calls an account is hidden."""
        return any(name in self.names for name in _OF_ACCOUNTS)


def find_hidden(hide: Sequence[str], mapping: MediaMapping, registry: Registry) -> Hiding:
    """Return what the names of the setting hide: every column, field and key that is tied to one of them.

    Each is a column of a snapshot's tables, followed by `:hash` if a salted hash replaces its values. Raises HideError.
    """
    names = {_SYNONYMS.get(name, name): one.endswith(HASH) for one in hide for name in [one.removesuffix(HASH)]}
    fields = [field for field in registry.values() if field.resource == MEDIA]
    types = {column.column: READING_TYPES[column.reading] for column in mapping.columns}
    # The values of a count are in core.media_counts too, as numbers, also if its column is one of texts.
    types |= {one.column_name: "a count" if one.is_count else one.type for one in fields if one.column_name is not None}
    types |= dict.fromkeys(_OF_ACCOUNTS, "VARCHAR") | {"kind": "computed"}
    del types[_NEEDED]
    for name, is_hashed in names.items():
        _check(name, types, is_hashed=is_hashed)
    columns: dict[str, bool] = {}
    content: dict[str, bool] = {}
    keys: list[str] = []
    for name, is_hashed in names.items():
        pattern = _WITH.get(name, re.escape(_squeezed(name)))
        mapped = [column for column in mapping.columns if _is_named(column.column, pattern)]
        named = [field for field in fields if field.column_name == name or _has_key(field.path, pattern)]
        paths = [path for column in mapped for path in column.paths] + [field.path for field in named]
        related = [field for field in fields if any(_is_related(field.path, path) for path in paths)]
        for column in mapped:
            columns[column.column] = content[column.column] = is_hashed and types.get(column.column) == "VARCHAR"
        for field in related:
            can_be_hashed = (
                is_hashed
                and field in named
                and types.get(str(field.column_name)) == "VARCHAR"
                and FieldType.LIST not in field.kinds
            )
            content[field.path] = can_be_hashed
            if field.column_name is not None:
                columns[field.column_name] = can_be_hashed
        keys += [pattern, *(re.escape(_squeezed(*to_keys(path)[-1:])) for path in paths)]
    return Hiding(names, columns, content, "|".join(dict.fromkeys(keys)))


def _check(name: str, types: Mapping[str, str], *, is_hashed: bool) -> None:
    if name in own_columns(MEDIA) and name not in types:
        raise HideError(f"GRAMHOUSE_HIDE: {name} cannot be hidden, because gramhouse needs it. Fix: remove it.")
    if name not in types:
        near = difflib.get_close_matches(name, types, n=1, cutoff=0.5)
        fix = f"use {near[0]}" if near else "remove it; docs/data-dictionary.md lists what can be hidden"
        raise HideError(f"GRAMHOUSE_HIDE: no table has a column {name!r} that can be hidden. Fix: {fix}.")
    if is_hashed and types[name] != "VARCHAR":
        raise HideError(
            f"GRAMHOUSE_HIDE: {name} cannot be hashed, because it is {types[name]}, not text."
            f" Fix: write {name} without {HASH}, to leave it out."
        )


def _is_named(name: str, pattern: str) -> bool:
    return re.fullmatch(pattern, _squeezed(name)) is not None


def _has_key(path: str, pattern: str) -> bool:
    keys = to_keys(path)
    return _is_named(safe_name(keys), pattern) or any(_is_named(key, pattern) for key in keys)


def _squeezed(key: str) -> str:
    """Return a key in lower case, without what is no letter or digit of any script."""
    return safe_name((key,)).replace("_", "")


def _is_related(path: str, other: str) -> bool:
    """Return whether a field is another one, contains it, or is part of it."""
    return path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/")


def is_hidden_key(pattern: re.Pattern[str], key: str) -> bool:
    """Return whether a key within JSON is hidden; `pattern` is that of `Hiding.key`."""
    return pattern.fullmatch(_squeezed(key)) is not None


def hidden_rows(source: str, tables: Mapping[str, Sequence[str]], hiding: Hiding, salt: str) -> Mapping[str, str]:
    """Return the statements that select the rows of each table, with what replaces hidden values but for JSON.

    `source` is the name of the warehouse's database, `tables` the columns of its tables by name.
    """
    statements = {}
    for table, columns in tables.items():
        replaced = {name: text for name, text in _replaced(table, hiding, salt).items() if name in columns}
        chosen = ", ".join(f"{value} AS {quoted(name)}" for name, value in replaced.items())
        select = f"* REPLACE ({chosen})" if chosen else "*"
        statements[table] = f"SELECT {select} FROM {quoted(source, 'core', table)}{_rows(table, hiding)}"  # noqa: S608 - quoted
    return statements


def hash_expression(column: str, salt: str) -> str:
    """Return the expression for the salted hash of a column; in Python it is that of hidden_json.py."""
    # DuckDB's function for Unicode's composed form ends at a NUL.
    parts = f"list_transform(string_split({quoted(column)}, chr(0)), lambda part: nfc_normalize(part))"
    return f"left(sha256({literal(salt)} || array_to_string({parts}, chr(0))), 32)"


def _hidden_value(name: str, salt: str, *, is_hashed: bool) -> str:
    return hash_expression(name, salt) if is_hashed else f"if(false, {quoted(name)}, NULL)"


def _replaced(table: str, hiding: Hiding, salt: str) -> Mapping[str, str]:
    """Return the expressions for the hidden values of a table, by column."""
    # Warnings name accounts in parentheses, and the first of them is the detail of its run.
    unnamed = {"detail": r"regexp_replace(detail, ' \([^()]*\)', '', 'g')"}
    masked = {
        "selection": f"if(kind = 'backfill', {literal(_MASK)}, selection)",
        "reason": f"if(reason IS NULL, NULL, {literal(_MASK)})",
    }
    match table:
        case "media":
            return _of_media(hiding, salt)
        case "media_versions":
            changed = f"list_filter(changed, lambda one: NOT list_contains([{_gone(hiding.content)}], one))"
            return {"changed": changed}
        case "accounts":
            hidden = {
                name: _hidden_value(name, salt, is_hashed=hiding.names[name])
                for name in _OF_ACCOUNTS
                if name in hiding.names
            }
            # In commands and the report, which name accounts.
            return hidden | ({"ig_username": "account_id"} if hiding.names.get("ig_username") is False else {})
        case "account_periods" if hiding.names.get("ig_username"):
            return {"value": f"if(attribute = 'ig_username', {hash_expression('value', salt)}, value)"}
        case "quarantine":
            return {"payload": literal(_MASK), "digest": "0"}
        case "runs" if hiding.hides_accounts:
            return masked | unnamed
        case "run_warnings" if hiding.hides_accounts:
            return unnamed
        case _:
            return {}


def _of_media(hiding: Hiding, salt: str) -> Mapping[str, str]:
    replaced = {"overflow": "if(false, overflow, NULL)", "content_hash": "0", "payload_hash": "0"}
    return replaced | {
        name: _hidden_value(name, salt, is_hashed=is_hashed) for name, is_hashed in hiding.columns.items()
    }


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
    of_items = {name for name, is_hashed in {**hiding.columns, **hiding.names}.items() if not is_hashed}
    of_accounts = of_items.intersection(_OF_ACCOUNTS)
    if "ig_username" in of_accounts:
        of_accounts |= {"old_ig_username", "new_ig_username"}
    is_hidden, views_of_lists = partial(is_hidden_key, re.compile(hiding.key)), declared_views()[CHILDREN]
    yield f"CREATE SCHEMA {PADDED}"
    for view in views:
        yield from create_view(view, PADDED)
        left_out = of_accounts | of_items if "media_id" in view.columns else of_accounts
        if "position" in view.columns:
            # The elements of a list have no such keys.
            left_out |= {one for one in view.columns.keys() - views_of_lists.columns.keys() if is_hidden(one)}
        gone = [name for name in view.columns if name in left_out]
        excluded = f" EXCLUDE ({', '.join(map(quoted, gone))})" if gone else ""
        columns = {
            name: f"{about} Hidden: a salted hash." if hiding.columns.get(name) or hiding.names.get(name) else about
            for name, about in view.columns.items()
            if name not in gone
        }
        call = f"({view.parameter})" if view.parameter is not None else ""
        select = f"SELECT *{excluded} FROM {PADDED}.{quoted(view.name)}{call}"  # noqa: S608 - quoted
        yield from create_view(replace(view, columns=columns, select=select))

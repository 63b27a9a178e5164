"""GRAMHOUSE_HIDE: the columns of which a snapshot has no values, or salted hashes instead.

Such a snapshot is a new file, so that no freed block of a copy keeps a value. Its tables have NULL, or a hash, in the
place of what is hidden. Its views are those of every snapshot.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.publish.replaceable import HASH
from connectors.warehouse.storage.connection import STORAGE, transaction
from connectors.warehouse.storage.sql import literal, quoted, statements
from models.files import WarehouseUnusable
from models.mapping import READING_TYPES, Field, FieldType, MediaMapping, Reading, Registry, safe_name, to_keys
from models.runs import nearest
from models.views import MEDIA

_SQL = statements(__name__)

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

_DRAFT = "next_snapshot"

# The rows that are hidden at once.
_AT_ONCE = 20_000


@dataclass(frozen=True, slots=True)
class Hiding:
    """What a snapshot hides.

    `hidden` are the names of columns and the paths of fields, each with whether a hash with the salt replaces its
    values. `named` is the pattern of the keys of fields that are hidden by their path, `key` that of the keys within
    JSON, both as `squeeze` returns them. `setting` is what the snapshot records.
    """

    hidden: Mapping[str, bool]
    named: re.Pattern[str]
    key: re.Pattern[str]
    setting: str
    salt: str

    @property
    def gone(self) -> list[str]:
        """Return the columns and fields without values."""
        return [name for name, is_hashed in self.hidden.items() if not is_hashed]

    def value(self, name: str, column: str) -> str:
        """Return the expression for the values of a column that are hidden with this name."""
        if name not in self.hidden:
            return quoted(column)
        # NULL of the column's type.
        return hash_expression(column, self.salt) if self.hidden[name] else f"if(false, {quoted(column)}, NULL)"

    def in_text(self, text: str) -> str:
        """Return JSON text without the hidden keys; text that is not JSON as it is."""
        try:
            return msgspec.json.encode(self._without_keys(msgspec.json.decode(text))).decode()
        except msgspec.DecodeError:
            return text

    def in_version(self, text: str) -> str:
        """Return the content of a version without its hidden columns and fields, or with their hashes."""
        kept = {}
        for name, value in msgspec.json.decode(text).items():
            if name in self.hidden:
                if self.hidden[name] and isinstance(value, str):
                    kept[name] = hash_text(value, self.salt)
            # A field past the limit of the registry is only known by its path.
            elif not (name.startswith("/") and _has_key(name, self.named)):
                kept[name] = self._without_keys(value)
        return msgspec.json.encode(kept).decode()

    def _without_keys(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, list):
            return [self._without_keys(one) for one in value]
        if isinstance(value, dict):
            shown = {key: one for key, one in value.items() if self.key.fullmatch(squeeze(key)) is None}
            return {key: self._without_keys(one) for key, one in shown.items()}
        return value


def hash_expression(column: str, salt: str) -> str:
    """Return the expression for the salted hash of a column; in Python it is `hash_text`."""
    # DuckDB's function for Unicode's composed form ends at a NUL.
    parts = f"list_transform(string_split({quoted(column)}, chr(0)), lambda part: nfc_normalize(part))"
    return f"left(sha256({literal(salt)} || array_to_string({parts}, chr(0))), 32)"


def hash_text(text: str, salt: str) -> str:
    """Return the salted hash of a text, as `hash_expression` computes it."""
    return sha256((salt + unicodedata.normalize("NFC", text)).encode()).hexdigest()[:32]


def find_hidden(hide: Sequence[str], salt: str, mapping: MediaMapping, registry: Registry) -> Hiding:
    """Return what the names of the setting hide: every column, field and key that is tied to one of them.

    Each is a column of a snapshot's tables, followed by `:hash` if a salted hash replaces its values. Raises
    WarehouseUnusable if one cannot be hidden.
    """
    names = {_SYNONYMS.get(name, name): one.endswith(HASH) for one in hide for name in [one.removesuffix(HASH)]}
    fields = [field for field in registry.values() if field.resource == MEDIA]
    # Of the elements of lists.
    inner = [field for field in registry.values() if field.resource != MEDIA and field.column_name is not None]
    types = dict.fromkeys((str(field.column_name) for field in inner), "in a list") | dict(_types_of(mapping, fields))
    patterns = {name: _WITH.get(name, re.escape(squeeze(name))) for name in names}
    hidden, keys = dict(names), [*patterns.values()]
    for name, is_hashed in names.items():
        _check(name, types, is_hashed=is_hashed)
        pattern = patterns[name]
        mapped = [one for one in mapping.columns if re.fullmatch(pattern, squeeze(one.column))]
        of_children = [one for one in mapping.child_columns if re.fullmatch(pattern, squeeze(one.column))]
        named = [field for field in fields if field.column_name == name or _has_key(field.path, pattern)]
        paths = [path for column in mapped for path in column.paths] + [field.path for field in named]
        for column in mapped:
            hidden[column.column] = is_hashed and types.get(column.column) == "VARCHAR"
        for field in fields:
            if any(_is_related(field.path, path) for path in paths):
                is_text = types.get(str(field.column_name)) == "VARCHAR"
                hidden |= dict.fromkeys(
                    # Versions have paths in the composed form.
                    filter(None, (field.path, unicodedata.normalize("NFC", field.path), field.column_name)),
                    is_hashed and field in named and is_text,
                )
        # Counts of the time before a path was mapped have the name that its field had.
        counted = [path for column in mapped if column.reading is Reading.COUNT for path in column.paths]
        hidden = {safe_name(to_keys(path)): False for path in counted} | hidden
        paths += [path for column in of_children for path in column.paths]
        paths += [field.path for field in inner if field.column_name == name]
        keys += [re.escape(squeeze(to_keys(path)[-1])) for path in paths]
    setting = ",".join(sorted(f"{name}{HASH}" if is_hashed else name for name, is_hashed in names.items()))
    of_fields, of_json = (re.compile("|".join(dict.fromkeys(each))) for each in (patterns.values(), keys))
    return Hiding(hidden, of_fields, of_json, setting, salt)


def _types_of(mapping: MediaMapping, fields: Iterable[Field]) -> Mapping[str, str]:
    """Return the columns that can be hidden, with their types."""
    types = {column.column: READING_TYPES[column.reading] for column in mapping.columns}
    for field in fields:
        if field.column_name is not None:
            # The values of a count are in core.media_counts too, as numbers, also if its column is one of texts.
            kind = "a count" if field.is_count else "a list" if FieldType.LIST in field.kinds else field.type
            types[field.column_name] = kind
    del types[_NEEDED]
    return types | dict.fromkeys(OF_ACCOUNTS, "VARCHAR") | {"kind": "computed"}


def _check(name: str, types: Mapping[str, str], *, is_hashed: bool) -> None:
    if name not in types:
        why = f"no table has a column {name!r} that can be hidden. {nearest(name, types)}"
        fix = "Fix: remove it, or write one that docs/data-dictionary.md lists."
    elif is_hashed and types[name] != "VARCHAR":
        why = f"{name} cannot be hashed, because it is {types[name]}, not text. "
        fix = f"Fix: write {name} without {HASH}."
    else:
        return
    raise WarehouseUnusable(f"GRAMHOUSE_HIDE: {why}{fix}")


def _has_key(path: str, pattern: str | re.Pattern[str]) -> bool:
    keys = to_keys(path)
    return any(re.fullmatch(pattern, squeeze(key)) for key in (safe_name(keys), *keys))


@lru_cache(maxsize=10_000)
def squeeze(key: str) -> str:
    """Return a key in lower case, without what is no letter or digit of any script."""
    return safe_name((key,)).replace("_", "")


def _is_related(path: str, other: str) -> bool:
    """Return whether a field is another one, contains it, or is part of it."""
    return path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/")


def write_hidden(
    db: DuckDBPyConnection, draft: Path, hiding: Hiding, registry: Registry, create_views: Iterable[str]
) -> None:
    """Write the snapshot to a new file, with these views. Raises duckdb.Error."""
    [(source,)] = db.execute("SELECT current_database()").fetchall()
    lists = [each for each in registry.values() if each.resource == MEDIA and FieldType.LIST in each.kinds]
    # DuckDB's functions in Python need numpy, which gramhouse does not.
    of_json: Mapping[str, Mapping[str, Callable[[str], str]]] = {
        "media": {str(field.column_name): hiding.in_text for field in lists},
        "media_versions": {"content": hiding.in_version},
    }
    db.execute(f"ATTACH {literal(str(draft))} AS {_DRAFT} (STORAGE_VERSION '{STORAGE}')")
    try:
        with closing(db.cursor()) as reader, transaction(db):
            db.execute(f"USE {_DRAFT}")
            db.execute("CREATE SCHEMA core")
            for table, columns in reader.execute(_SQL["tables"]).fetchall():
                rows = reader.execute(_select(table, columns, hiding)).to_arrow_reader(_AT_ONCE)
                batches = (_change(batch, of_json.get(table, {})) for batch in rows)
                db.register("hidden_rows", pa.RecordBatchReader.from_batches(rows.schema, batches))
                db.execute(f"CREATE TABLE core.{quoted(table)} AS FROM hidden_rows")
            for statement in create_views:
                db.execute(statement)
        db.execute(f"CHECKPOINT {_DRAFT}")
    finally:
        db.unregister("hidden_rows")
        db.execute(f"USE {source}")
        db.execute(f"DETACH {_DRAFT}")


def _change(batch: pa.RecordBatch, changes: Mapping[str, Callable[[str], str]]) -> pa.RecordBatch:
    """Return the rows with the results of functions in the place of texts, by column."""
    for place, name in enumerate(batch.schema.names):
        if (change := changes.get(name)) is not None:
            texts = [None if text is None else change(text) for text in batch[name].to_pylist()]
            batch = batch.set_column(place, name, pa.array(texts, pa.string()))
    return batch


def _select(table: str, columns: Iterable[str], hiding: Hiding) -> str:
    """Return the statement for the rows of a table without what is hidden."""
    shows_names = hiding.hidden.keys().isdisjoint(OF_ACCOUNTS)
    if table not in _SQL or (table in ("runs", "run_outcomes", "run_warnings") and shows_names):
        return f"FROM core.{quoted(table)}"
    shown = {name: hiding.value(name, name) for name in columns if name in hiding.hidden}
    # Every account has a name: one that is left out is the id.
    is_gone = NAME in hiding.gone
    return _SQL[table].format(
        replaced="".join(f", {value} AS {quoted(name)}" for name, value in shown.items()),
        gone=f"[{', '.join(['NULL', *map(literal, hiding.gone)])}]",
        ig_username="account_id" if is_gone else hiding.value(NAME, NAME),
        period_value="account_id" if is_gone else hiding.value(NAME, "value"),
        public_id=hiding.value("public_id", "public_id"),
    )

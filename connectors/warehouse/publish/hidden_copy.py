"""Writes a snapshot with hidden columns: a new file, so that no freed block of a copy keeps a value.

Its tables have NULL, or a hash, in the place of what is hidden. Its views are those of every snapshot.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from duckdb import DuckDBPyConnection
from duckdb.func import PythonUDFType
from duckdb.sqltypes import VARCHAR

from connectors.warehouse.publish.contents import create_view
from connectors.warehouse.publish.hide import NAME, OF_ACCOUNTS, Hiding
from connectors.warehouse.storage.connection import STORAGE, transaction
from connectors.warehouse.storage.quoting import literal, quoted
from connectors.warehouse.storage.statements import statements
from models.fields import FieldType, Registry
from models.views import MEDIA, View

_SQL = statements(__name__)

_DRAFT = "next_snapshot"

_TABLES = (
    "SELECT table_name, list(column_name) FROM duckdb_columns() WHERE schema_name = 'core' AND NOT internal GROUP BY 1"
)


def write_hidden(
    db: DuckDBPyConnection, draft: Path, hiding: Hiding, views: Sequence[View], registry: Registry, salt: str
) -> None:
    """Write the snapshot to a new file, with these views. Raises duckdb.Error."""
    [(source,)] = db.execute("SELECT current_database()").fetchall()
    tables = dict(db.execute(_TABLES).fetchall())
    functions = {
        "gh_hash": partial(hash_text, salt),
        "gh_without": partial(_hide_in_text, hiding),
        "gh_version": partial(_hide_in_version, hiding, salt),
    }
    db.execute(f"ATTACH {literal(str(draft))} AS {_DRAFT} (STORAGE_VERSION '{STORAGE}')")
    try:
        for name, function in functions.items():
            db.create_function(name, _of_column(function), [VARCHAR], VARCHAR, type=PythonUDFType.ARROW)
        with transaction(db):
            db.execute(f"CREATE SCHEMA {_DRAFT}.core")
            for table, columns in tables.items():
                rows = _select(table, columns, hiding, registry)
                db.execute(f"CREATE TABLE {_DRAFT}.core.{quoted(table)} AS {rows}")
            db.execute(f"USE {_DRAFT}")
            for view in views:
                for statement in create_view(_describe(view, hiding)):
                    db.execute(statement)
        db.execute(f"CHECKPOINT {_DRAFT}")
    finally:
        db.execute(f"USE {source}")
        db.execute(f"DETACH {_DRAFT}")
        for name in functions:
            db.remove_function(name)


def _of_column(function: Callable[[str], str]) -> Callable[..., Any]:
    """Return the function for a column of texts."""

    def of_column(texts: pa.ChunkedArray) -> pa.Array:
        return pa.array([None if text is None else function(text) for text in texts.to_pylist()], pa.string())

    return of_column


def _select(table: str, columns: Iterable[str], hiding: Hiding, registry: Registry) -> str:
    """Return the statement for the rows of a table without what is hidden."""
    hides_names = not hiding.hidden.keys().isdisjoint(OF_ACCOUNTS)
    if table not in _SQL or (table in ("runs", "run_warnings") and not hides_names):
        return f"FROM core.{quoted(table)}"

    def value(name: str, column: str) -> str:
        """Return the expression for the values of a column, which are hidden with this name."""
        if name not in hiding.hidden:
            return quoted(column)
        # NULL of the column's type.
        return f"gh_hash({quoted(column)})" if hiding.hidden[name] else f"if(false, {quoted(column)}, NULL)"

    lists = {each.column_name for each in registry.values() if each.resource == MEDIA and FieldType.LIST in each.kinds}
    replaced = {name: f"gh_without({quoted(name)})" for name in columns if name in lists}
    replaced |= {name: value(name, name) for name in columns if name in hiding.hidden}
    return _SQL[table].format(
        replaced="".join(f", {expression} AS {quoted(name)}" for name, expression in replaced.items()),
        gone=f"[{', '.join(['NULL', *map(literal, hiding.gone)])}]",
        ig_username="account_id" if NAME in hiding.gone else value(NAME, NAME),
        period_value="account_id" if NAME in hiding.gone else value(NAME, "value"),
        public_id=value("public_id", "public_id"),
    )


def _describe(view: View, hiding: Hiding) -> View:
    """Return a view whose comments say what is hidden, and without `kind`, which no table has, if that is."""
    notes = {name: " Hidden: a salted hash." if is_hashed else " Hidden." for name, is_hashed in hiding.hidden.items()}
    columns = {name: about + notes.get(name, "") for name, about in view.columns.items()}
    if "kind" not in hiding.gone or "kind" not in columns:
        return replace(view, columns=columns)
    select = f"SELECT * REPLACE (NULL::VARCHAR AS kind) FROM ({view.select})"  # noqa: S608 - of this package
    return replace(view, columns=columns, select=select)


def hash_text(salt: str, text: str) -> str:
    """Return the salted hash of a text, which is the same in every Unicode form."""
    return sha256((salt + unicodedata.normalize("NFC", text)).encode()).hexdigest()[:32]


def _hide_in_text(hiding: Hiding, text: str) -> str:
    """Return JSON text without the hidden keys; text that is not JSON as it is."""
    try:
        return msgspec.json.encode(hiding.without_keys(msgspec.json.decode(text))).decode()
    except msgspec.DecodeError:
        return text


def _hide_in_version(hiding: Hiding, salt: str, text: str) -> str:
    """Return the content of a version without its hidden columns and fields, or with their hashes."""
    kept = {}
    for name, value in msgspec.json.decode(text).items():
        if name not in hiding.hidden:
            kept[name] = hiding.without_keys(value)
        elif hiding.hidden[name] and isinstance(value, str):
            kept[name] = hash_text(salt, value)
    return msgspec.json.encode(kept).decode()

"""Writes a snapshot with hidden columns: a new file, so that no freed block of a copy keeps a value.

Its tables have NULL, or a hash, in the place of what is hidden. Its views are those of every snapshot.
"""

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import msgspec
import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.publish.contents import create_view
from connectors.warehouse.publish.hide import NAME, OF_ACCOUNTS, Hiding
from connectors.warehouse.storage.connection import STORAGE, transaction
from connectors.warehouse.storage.sql import literal, quoted, statements
from models.mapping import FieldType, Registry
from models.views import MEDIA, View

_SQL = statements(__name__)

_DRAFT = "next_snapshot"

# The rows that are hidden at once.
_AT_ONCE = 20_000

_TABLES = (
    "SELECT table_name, list(column_name) FROM duckdb_columns() WHERE schema_name = 'core' AND NOT internal GROUP BY 1"
)


def write_hidden(
    db: DuckDBPyConnection, draft: Path, hiding: Hiding, views: Sequence[View], registry: Registry, salt: str
) -> None:
    """Write the snapshot to a new file, with these views. Raises duckdb.Error."""
    [(source,)] = db.execute("SELECT current_database()").fetchall()
    tables = dict(db.execute(_TABLES).fetchall())
    lists = [each.column_name for each in registry.values() if each.resource == MEDIA and FieldType.LIST in each.kinds]
    # DuckDB's functions in Python need numpy, which gramhouse does not.
    of_json: Mapping[str, Mapping[str | None, Callable[[str], str]]] = {
        "media": dict.fromkeys(lists, partial(_hide_in_text, hiding)),
        "media_versions": {"content": partial(_hide_in_version, hiding, salt)},
    }
    db.execute(f"ATTACH {literal(str(draft))} AS {_DRAFT} (STORAGE_VERSION '{STORAGE}')")
    try:
        with closing(db.cursor()) as reader, transaction(db):
            db.execute(f"USE {_DRAFT}")
            db.execute("CREATE SCHEMA core")
            for table, columns in tables.items():
                rows = reader.execute(_select(table, columns, hiding, salt)).to_arrow_reader(_AT_ONCE)
                batches = (_replace_texts(batch, of_json.get(table, {})) for batch in rows)
                db.register("hidden_rows", pa.RecordBatchReader.from_batches(rows.schema, batches))
                db.execute(f"CREATE TABLE core.{quoted(table)} AS FROM hidden_rows")
                db.unregister("hidden_rows")
            for view in views:
                for statement in create_view(_describe(view, hiding)):
                    db.execute(statement)
        db.execute(f"CHECKPOINT {_DRAFT}")
    finally:
        db.execute(f"USE {source}")
        db.execute(f"DETACH {_DRAFT}")


def _replace_texts(batch: pa.RecordBatch, functions: Mapping[str | None, Callable[[str], str]]) -> pa.RecordBatch:
    """Return the rows with the results of functions in the place of texts, by column."""
    for place, name in enumerate(batch.schema.names):
        if (function := functions.get(name)) is not None:
            texts = [None if text is None else function(text) for text in batch[name].to_pylist()]
            batch = batch.set_column(place, name, pa.array(texts, pa.string()))
    return batch


def _select(table: str, columns: Iterable[str], hiding: Hiding, salt: str) -> str:
    """Return the statement for the rows of a table without what is hidden."""
    hides_names = not hiding.hidden.keys().isdisjoint(OF_ACCOUNTS)
    if table not in _SQL or (table in ("runs", "run_warnings") and not hides_names):
        return f"FROM core.{quoted(table)}"

    def value(name: str, column: str) -> str:
        """Return the expression for the values of a column, which are hidden with this name."""
        if name not in hiding.hidden:
            return quoted(column)
        # NULL of the column's type.
        return hash_expression(column, salt) if hiding.hidden[name] else f"if(false, {quoted(column)}, NULL)"

    replaced = {name: value(name, name) for name in columns if name in hiding.hidden}
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
    if "media_id" not in view.columns:
        # Other views have columns with the names of items' columns, such as the kind of a run.
        notes = {name: note for name, note in notes.items() if name in OF_ACCOUNTS}
    columns = {name: about + notes.get(name, "") for name, about in view.columns.items()}
    if "kind" not in notes or "kind" not in columns:
        return replace(view, columns=columns)
    select = f"SELECT * REPLACE (NULL::VARCHAR AS kind) FROM ({view.select})"  # noqa: S608 - of this package
    return replace(view, columns=columns, select=select)


def hash_expression(column: str, salt: str) -> str:
    """Return the expression for the salted hash of a column; in Python it is `hash_text`."""
    # DuckDB's function for Unicode's composed form ends at a NUL.
    parts = f"list_transform(string_split({quoted(column)}, chr(0)), lambda part: nfc_normalize(part))"
    return f"left(sha256({literal(salt)} || array_to_string({parts}, chr(0))), 32)"


def hash_text(salt: str, text: str) -> str:
    """Return the salted hash of a text, as `hash_expression` computes it."""
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

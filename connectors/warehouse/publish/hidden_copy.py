"""Writes a snapshot with hidden columns.

It is a new file, so that no freed block of a copy keeps a value. Its tables have NULL or the hash in hidden columns.
Schema `padded` has all views of them, which the commands and the report read; the views of schema `main` leave the
hidden columns out.
"""

import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.publish.contents import create_view
from connectors.warehouse.publish.hide import NAME, OF_ACCOUNTS, Hiding
from connectors.warehouse.queries.reader import PADDED
from connectors.warehouse.storage.connection import STORAGE, transaction
from connectors.warehouse.storage.quoting import literal, quoted
from connectors.warehouse.storage.statements import statements
from models.fields import FieldType, Registry
from models.views import CHILDREN, MEDIA, View, views

_SQL = statements(__name__)

_DRAFT = "next_snapshot"

# The rows that are hidden at once.
_AT_ONCE = 20_000

_TABLES = (
    "SELECT table_name, list(column_name) FROM duckdb_columns() WHERE schema_name = 'core' AND NOT internal GROUP BY 1"
)


def write_hidden(
    db: DuckDBPyConnection, draft: Path, hiding: Hiding, filled: Sequence[View], registry: Registry, salt: str
) -> None:
    """Write the snapshot to a new file; `filled` are its views. Raises duckdb.Error."""
    [(source,)] = db.execute("SELECT current_database()").fetchall()
    tables = dict(db.execute(_TABLES).fetchall())
    pruned: Mapping[str, Mapping[str, Callable[[str], str]]] = {
        "media": {
            one.column_name: partial(_prune_text, hiding)
            for one in registry.values()
            if one.resource == MEDIA and one.column_name is not None and FieldType.LIST in one.kinds
        },
        "media_versions": {"content": partial(_prune_content, hiding, salt)},
    }
    db.execute(f"ATTACH {literal(str(draft))} AS {_DRAFT} (STORAGE_VERSION '{STORAGE}')")
    try:
        with closing(db.cursor()) as reader, transaction(db):
            db.execute(f"USE {_DRAFT}")
            db.execute("CREATE SCHEMA core")
            for table, columns in tables.items():
                rows = reader.execute(_select(table, columns, hiding, salt)).to_arrow_reader(_AT_ONCE)
                batches = (_prune(batch, pruned.get(table, {})) for batch in rows)
                db.register("hidden_rows", pa.RecordBatchReader.from_batches(rows.schema, batches))
                db.execute(f"CREATE TABLE core.{quoted(table)} AS FROM hidden_rows")
                db.unregister("hidden_rows")
            for statement in _write_views(hiding, filled):
                db.execute(statement)
        db.execute(f"CHECKPOINT {_DRAFT}")
    finally:
        db.execute(f"USE {source}")
        db.execute(f"DETACH {_DRAFT}")


def _select(table: str, columns: Sequence[str], hiding: Hiding, salt: str) -> str:
    """Return the statement for the rows of a table, with what replaces hidden values but for JSON."""
    hides_names = not hiding.hidden.keys().isdisjoint(OF_ACCOUNTS)
    if table not in _SQL or (table in ("runs", "run_warnings") and not hides_names):
        return f"FROM core.{quoted(table)}"

    def value(name: str, column: str) -> str:
        """Return the expression for the values of a column, which are hidden with this name."""
        if name not in hiding.hidden:
            return quoted(column)
        # NULL of the column's type.
        return hash_expression(column, salt) if hiding.hidden[name] else f"if(false, {quoted(column)}, NULL)"

    return _SQL[table].format(
        hidden_columns="".join(f", {value(name, name)} AS {quoted(name)}" for name in hiding.hidden if name in columns),
        gone=f"[{', '.join(['NULL', *map(literal, hiding.gone)])}]",
        ig_username="account_id" if NAME in hiding.gone else value(NAME, NAME),
        public_id=value("public_id", "public_id"),
        period_value=value(NAME, "value"),
    )


def hash_expression(column: str, salt: str) -> str:
    """Return the expression for the salted hash of a column; in Python it is `hash_text`."""
    # DuckDB's function for Unicode's composed form ends at a NUL.
    parts = f"list_transform(string_split({quoted(column)}, chr(0)), lambda part: nfc_normalize(part))"
    return f"left(sha256({literal(salt)} || array_to_string({parts}, chr(0))), 32)"


def hash_text(salt: str, text: str) -> str:
    """Return the salted hash of a text, as `hash_expression` computes it."""
    return sha256((salt + unicodedata.normalize("NFC", text)).encode()).hexdigest()[:32]


def _prune(batch: pa.RecordBatch, pruned: Mapping[str, Callable[[str], str]]) -> pa.RecordBatch:
    """Return the rows without the hidden values of the columns of JSON."""
    for name, without in pruned.items():
        texts = [None if text is None else without(text) for text in batch[name].to_pylist()]
        batch = batch.set_column(batch.schema.get_field_index(name), name, pa.array(texts, pa.string()))
    return batch


def _prune_text(hiding: Hiding, text: str) -> str:
    """Return JSON text without the hidden keys; text that is not JSON as it is."""
    try:
        return msgspec.json.encode(_prune_value(hiding, msgspec.json.decode(text))).decode()
    except msgspec.DecodeError:
        return text


def _prune_content(hiding: Hiding, salt: str, text: str) -> str:
    """Return the content of a version without its hidden columns and fields, or with their hashes."""
    kept = {}
    for name, value in msgspec.json.decode(text).items():
        if name not in hiding.hidden:
            kept[name] = _prune_value(hiding, value)
        elif hiding.hidden[name] and isinstance(value, str):
            kept[name] = hash_text(salt, value)
    return msgspec.json.encode(kept).decode()


def _prune_value(hiding: Hiding, value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        return [_prune_value(hiding, one) for one in value]
    if isinstance(value, dict):
        return {key: _prune_value(hiding, one) for key, one in value.items() if not hiding.is_hidden_key(key)}
    return value


def _write_views(hiding: Hiding, filled: Sequence[View]) -> Iterator[str]:
    """Yield the statements that create the views of the current database, after its tables."""
    of_items, of_elements = {*hiding.gone}, views()[CHILDREN].columns
    of_accounts = of_items.intersection(OF_ACCOUNTS)
    if NAME in of_accounts:
        of_accounts |= {"old_ig_username", "new_ig_username"}
    yield f"CREATE SCHEMA {PADDED}"
    for view in filled:
        yield from create_view(view, PADDED)
        left_out = of_accounts | of_items if "media_id" in view.columns else of_accounts
        if "position" in view.columns:
            # The elements of a list have no such keys.
            left_out |= {one for one in view.columns if one not in of_elements and hiding.is_hidden_key(one)}
        gone = [name for name in view.columns if name in left_out]
        excluded = f" EXCLUDE ({', '.join(map(quoted, gone))})" if gone else ""
        columns = {
            name: f"{about} Hidden: a salted hash." if hiding.hidden.get(name) else about
            for name, about in view.columns.items()
            if name not in gone
        }
        call = f"({view.parameter})" if view.parameter is not None else ""
        select = f"SELECT *{excluded} FROM {PADDED}.{quoted(view.name)}{call}"  # noqa: S608 - quoted
        yield from create_view(replace(view, columns=columns, select=select))

"""Writes a snapshot with hidden columns: a new file, so that no freed block of a copy keeps a value.

Its tables have NULL, or a hash, in the place of what is hidden. Its views are those of every snapshot.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path

import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.publish.hide import NAME, OF_ACCOUNTS, Hiding
from connectors.warehouse.storage.connection import STORAGE, transaction
from connectors.warehouse.storage.sql import literal, quoted, statements
from models.mapping import FieldType, Registry
from models.views import MEDIA

_SQL = statements(__name__)

_DRAFT = "next_snapshot"

# The rows that are hidden at once.
_AT_ONCE = 20_000


def write_hidden(
    db: DuckDBPyConnection, draft: Path, hiding: Hiding, registry: Registry, create_views: Iterable[str]
) -> None:
    """Write the snapshot to a new file, with these views. Raises duckdb.Error."""
    [(source,)] = db.execute("SELECT current_database()").fetchall()
    tables = dict(db.execute(_SQL["tables"]).fetchall())
    fields = [each for each in registry.values() if each.resource == MEDIA and FieldType.LIST in each.kinds]
    # DuckDB's functions in Python need numpy, which gramhouse does not.
    of_json: Mapping[str, Mapping[str, Callable[[str], str]]] = {
        "media": {str(field.column_name): hiding.in_text for field in fields},
        "media_versions": {"content": hiding.in_version},
    }
    db.execute(f"ATTACH {literal(str(draft))} AS {_DRAFT} (STORAGE_VERSION '{STORAGE}')")
    try:
        with closing(db.cursor()) as reader, transaction(db):
            db.execute(f"USE {_DRAFT}")
            db.execute("CREATE SCHEMA core")
            for table, columns in tables.items():
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
    if table not in _SQL or (table in ("runs", "run_warnings") and shows_names):
        return f"FROM core.{quoted(table)}"
    is_gone = NAME in hiding.gone
    return _SQL[table].format(
        replaced="".join(
            f", {hiding.value(name, name)} AS {quoted(name)}" for name in columns if name in hiding.hidden
        ),
        gone=f"[{', '.join(['NULL', *map(literal, hiding.gone)])}]",
        ig_username="account_id" if is_gone else hiding.value(NAME, NAME),
        period_value="account_id" if is_gone else hiding.value(NAME, "value"),
        public_id=hiding.value("public_id", "public_id"),
    )

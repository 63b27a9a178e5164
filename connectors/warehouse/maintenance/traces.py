"""Searches files for what was erased: the contents of tables and Parquet files, and the bytes of all files."""

import mmap
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from uuid import UUID

import duckdb

from connectors.warehouse.storage.durable import is_duckdb
from connectors.warehouse.storage.errors import first_line
from connectors.warehouse.storage.paths import real
from connectors.warehouse.storage.quoting import literal, quoted
from models.erasure import Account
from models.mapping import to_pointer

_TABLES = "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'searched'"

# Columns with words of the API or of gramhouse, one of which may be an account's name as well.
_WORDS = {
    "attribute", "code", "column_name", "column_type", "error_code", "event", "finding", "item_order", "kind", "kinds",
    "mapping", "media_type", "metric", "name", "outcome", "reason", "removal", "resource", "selection", "state",
    "status", "surface", "type",
}  # fmt: skip

# The same in tables of items, where any other column has what the API sent.
_OF_ITEMS = {"media_type", "metric", "removal", "surface", "changed"}

# A whole value in a JSON text, not a key.
_IN_JSON = r'"%s"\s*([,}\]]|$)'

NOT_SEARCHED = "not searched"

Found = dict[str, int]


def files_of(*begins: Path) -> list[Path]:
    """Return the files that belong to some paths, or are copies of them.

    Those whose names begin with that of a path, such as its logs and drafts; of folders, all files. In the same folder
    also every DuckDB file, such as a backup with another name, and every file that cannot be read.
    """
    found: set[Path] = set()
    for begin in map(real, begins):
        beside = begin.parent.iterdir() if begin.parent.is_dir() else ()
        near = [path for path in beside if path.name.removeprefix(".").startswith(begin.name) or _is_copy(path)]
        found |= {file for path in near for file in (path.rglob("*") if path.is_dir() else (path,))}
    return sorted(path for path in found if path.is_file())


def _is_copy(path: Path) -> bool:
    try:
        return path.is_file() and is_duckdb(path)
    except OSError:
        return True


def search(files: Iterable[Path], accounts: Collection[Account]) -> dict[Path, Found]:
    """Return for each file where it has ids (as text, or as 16 bytes) or names, and how many values.

    Names are whole values, or whole keys in the paths of fields. A file that cannot be read or is of an unknown format,
    such as a compressed backup, counts as found, with NOT_SEARCHED in place of a table.
    """
    ids = [UUID(account.account_id) for account in accounts]
    names = [name for account in accounts for name in account.names]
    found: dict[Path, Found] = {}
    for path in files:
        try:
            if is_duckdb(path) or ".parquet" in path.name:
                # The bytes of names may be part of other values.
                found[path] = _in_tables(path, ids, names) | _in_bytes(path, ids, ())
            elif _is_readable(path):
                found[path] = _in_bytes(path, ids, names)
            else:
                found[path] = {f"{NOT_SEARCHED}: compressed, or of an unknown format": 1}
        except (OSError, duckdb.Error) as error:
            why = error.strerror if isinstance(error, OSError) else first_line(error)
            found[path] = {f"{NOT_SEARCHED}: {why}": 1}
    return found


def _is_readable(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(4096)
    is_text = b"\0" not in start and "\ufffd" not in start[:-3].decode(errors="replace")
    return is_text or path.suffix in (".wal", ".sqlite-wal") or start.startswith(b"SQLite format 3")


def _in_bytes(path: Path, ids: Iterable[UUID], names: Iterable[str]) -> Found:
    texts = [text for one in ids for form in (str(one), one.hex) for text in (form, form.upper())]
    # Whole values in JSON and HTML.
    texts += [pattern for name in map(re.escape, names) for pattern in (_IN_JSON % name, f">{name}<")]
    patterns = [*(re.escape(one.bytes) for one in ids), *(text.encode() for text in texts)]
    if not path.stat().st_size:
        return {}
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = sum(re.search(pattern, data) is not None for pattern in patterns)
    return {"bytes": found} if found else {}


def _in_tables(path: Path, ids: Sequence[UUID], names: Sequence[str]) -> Found:
    with duckdb.connect() as db:
        tables = {"": f"read_parquet({literal(str(path))}, hive_partitioning = false)"}
        if is_duckdb(path):
            db.execute(f"ATTACH {literal(str(path))} AS searched (READ_ONLY)")
            tables = {
                f"{schema}.{table}.": quoted("searched", schema, table)
                for schema, table in db.execute(_TABLES).fetchall()
            }
        found: Found = {}
        for label, table in tables.items():
            kinds = {column: str(kind) for column, kind, *_ in db.execute(f"DESCRIBE FROM {table}").fetchall()}
            # An event names an item, but its other columns have words of gramhouse.
            has_items = "media_id" in kinds and label != "core.events."
            for column, kind in kinds.items():
                condition = _condition(column, kind, ids, names, has_items=has_items)
                [(rows,)] = db.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchall()  # noqa: S608
                found |= {f"{label}{column}": rows} if rows else {}
        return found


def _condition(column: str, kind: str, ids: Iterable[UUID], names: Iterable[str], *, has_items: bool) -> str:
    """Return the condition of rows with an id or a name in this column."""
    if kind == "BLOB":
        text = f"lower(hex({quoted(column)}))"
    elif kind in ("VARCHAR", "UUID", "JSON"):
        text = f"{quoted(column)}::VARCHAR"
    elif "(" in kind or "[" in kind:
        text = f"to_json({quoted(column)})::VARCHAR"
    else:
        return "false"
    # In hexadecimal digits, an id that is text has those of its characters.
    digits = (each for one in ids for each in (one.hex, str(one).encode().hex(), one.hex.encode().hex()))
    conditions = [f"contains(replace(lower({text}), '-', ''), '{each}')" for each in digits]
    for name in names:
        if column == "path" and not has_items:
            # Of fields: columns and tables are named after the keys.
            conditions.append(f"contains({text} || '/', {literal(to_pointer((name, '')))})")
        elif column not in (_OF_ITEMS if has_items else _WORDS):
            in_json = literal(_IN_JSON % re.escape(name))
            conditions += [f"{text} = {literal(name)}", f"regexp_matches({text}, {in_json})"]
    return " OR ".join(conditions)

"""Searches files for what was erased: the contents of tables and Parquet files, and the bytes of all files."""

import mmap
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from uuid import UUID

import duckdb
from duckdb import DuckDBPyConnection

from connectors.warehouse.maintenance.pending import Account
from connectors.warehouse.storage.durable import is_duckdb
from connectors.warehouse.storage.errors import first_line
from connectors.warehouse.storage.paths import real
from connectors.warehouse.storage.quoting import literal, quoted
from models.pointer import to_pointer

_TABLES = "SELECT database_name, schema_name, table_name FROM duckdb_tables() WHERE database_name = 'searched'"

# Columns with words of the API or of gramhouse, one of which may be an account's name as well.
_WORDS = {
    "code", "column_name", "error_code", "item_order", "kind", "media_type", "metric", "name", "outcome",
    "reason", "removal", "resource", "run_kind", "selection", "state", "status", "surface", "type",
}  # fmt: skip

# The same in tables of items and of their children, where any other column has what the API sent.
_OF_ITEMS = {"media_type", "metric", "removal", "surface"}

# A whole value in a JSON text, not a key.
_IN_JSON = r'"%s"\s*([,}\]]|$)'

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


def search(files: Iterable[Path], accounts: Iterable[Account]) -> dict[Path, Found]:
    """Return for each file where it has ids (as text, or as 16 bytes) or names, and how many values.

    Names are whole values, or whole keys in the paths of fields.

    A file that cannot be read, such as a backup that another program has open, counts as found.
    """
    wanted, found = list(accounts), {}
    for path in files:
        try:
            found[path] = _in_file(path, wanted)
        except OSError as error:
            found[path] = {f"not searched: {error.strerror or error}": 1}
    return found


def _in_file(path: Path, accounts: Sequence[Account]) -> Found:
    # The bytes of names are not searched in a database: they may be part of other values.
    has_tables = is_duckdb(path) or ".parquet" in path.name
    try:
        in_tables = dict(_in_tables(path, accounts)) if has_tables else {}
    except duckdb.Error as error:
        in_tables = {f"not searched: {first_line(error)}": 1}
    return in_tables | _in_bytes(path, accounts, with_names=not has_tables)


def _in_bytes(path: Path, accounts: Iterable[Account], *, with_names: bool) -> Found:
    patterns = []
    for account in accounts:
        one = UUID(account.account_id)
        texts = (text for word in (str(one), one.hex) for text in (word, word.upper()))
        patterns += [re.escape(pattern) for pattern in (one.bytes, *map(str.encode, texts))]
        # Whole values in JSON and HTML.
        names = [re.escape(name.encode()) for name in account.names if with_names]
        patterns += [pattern for name in names for pattern in (_IN_JSON.encode() % name, b">%s<" % name)]
    if not path.stat().st_size:
        return {}
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = sum(re.search(pattern, data) is not None for pattern in patterns)
    return {"bytes": found} if found else {}


def _in_tables(path: Path, accounts: Iterable[Account]) -> Iterator[tuple[str, int]]:
    with duckdb.connect() as db:
        if is_duckdb(path):
            db.execute(f"ATTACH {literal(str(path))} AS searched (READ_ONLY)")
            names = [quoted(*row) for row in db.execute(_TABLES).fetchall()]
        else:
            names = [f"read_parquet({literal(str(path))}, hive_partitioning = false)"]
        for name in names:
            yield from _in_table(db, name, accounts)


def _in_table(db: DuckDBPyConnection, table: str, accounts: Iterable[Account]) -> Iterator[tuple[str, int]]:
    described = db.execute(f"DESCRIBE FROM {table}").fetchall()
    texts = {column: text for column, kind, *_ in described if (text := _text(column, str(kind)))}
    if not texts:
        return
    # An event names an item, but its other columns have words of gramhouse.
    has_items = "media_id" in texts and not table.endswith('."events"')
    counts = [
        f"count(*) FILTER (WHERE {_holds(column, text, accounts, has_items=has_items)})"
        for column, text in texts.items()
    ]
    [found] = db.execute(f"SELECT {', '.join(counts)} FROM {table}").fetchall()  # noqa: S608 - quoted
    label = table.replace('"', "").removeprefix("searched.") if "(" not in table else ""
    for column, number in zip(texts, found, strict=True):
        if number:
            yield (f"{label}.{column}" if label else column), number


def _text(column: str, kind: str) -> str:
    """Return the expression for a column's text; empty if its type cannot contain an id or a name."""
    if kind == "BLOB":
        return f"lower(hex({quoted(column)}))"
    if kind in ("VARCHAR", "UUID", "JSON"):
        return f"{quoted(column)}::VARCHAR"
    return f"to_json({quoted(column)})::VARCHAR" if any(sign in kind for sign in "([") else ""


def _holds(column: str, text: str, accounts: Iterable[Account], *, has_items: bool) -> str:
    conditions = []
    for account in accounts:
        one = UUID(account.account_id)
        # A column of bytes is read as hexadecimal digits, in which an id that is text has those of its characters.
        hexadecimal = (one.hex, str(one).encode().hex(), one.hex.encode().hex())
        conditions += [f"contains(replace(lower({text}), '-', ''), '{each}')" for each in hexadecimal]
        for name in account.names:
            if column == "path" and not has_items:
                # Of fields: columns and tables are named after the keys.
                conditions.append(f"contains({text} || '/', {literal(to_pointer((name, '')))})")
            elif column not in (_OF_ITEMS if has_items else _WORDS):
                in_json = literal(_IN_JSON % re.escape(name))
                conditions += [f"{text} = {literal(name)}", f"regexp_matches({text}, {in_json})"]
    return " OR ".join(conditions)

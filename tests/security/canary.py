"""Searches all files of a folder for a secret in many encodings."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from urllib.parse import quote

import duckdb

_RELATIONS = "SELECT database_name, schema_name, table_name FROM duckdb_tables() WHERE database_name = 'looked_at'"
_WORDS = "SELECT to_json(t)::VARCHAR FROM {} AS t"


def _escaped(secret: str, form: str, *, signs_only: bool) -> bytes:
    return "".join(
        char if signs_only and char.isalnum() else "\\u" + format(ord(char), form) for char in secret
    ).encode()


@cache
def spellings(secret: str) -> frozenset[bytes]:
    """Return all encodings: plain, and escaped by JSON or in a URL."""
    plain = secret.encode()
    percent = quote(secret, safe="").encode()
    return frozenset(
        {
            plain,
            percent,
            percent.lower(),
            quote(secret).encode(),
            json.dumps(secret)[1:-1].encode(),
            plain.replace(b"/", b"\\/"),
            *(_escaped(secret, form, signs_only=signs) for form in ("04x", "04X") for signs in (True, False)),
        }
    )


def _of_duckdb(path: Path) -> Iterator[bytes]:
    # Compressed data cannot be searched as bytes.
    with duckdb.connect() as db:
        db.execute(f"ATTACH '{path}' AS looked_at (READ_ONLY)")
        for system in ("duckdb_tables", "duckdb_columns", "duckdb_views"):
            about = db.execute(_WORDS.format(f"{system}()")).fetchall()
            yield "\n".join(text for (text,) in about).encode()
        for names in db.execute(_RELATIONS).fetchall():
            table = ".".join(f'"{name}"' for name in names)
            yield "\n".join(text for (text,) in db.execute(_WORDS.format(table)).fetchall()).encode()


def _of_parquet(path: Path) -> Iterator[bytes]:
    with duckdb.connect() as db:
        rows = db.execute(_WORDS.format(f"read_parquet('{path}', hive_partitioning = false)")).fetchall()
        yield "\n".join(text for (text,) in rows).encode()


def _of_sqlite(path: Path) -> Iterator[bytes]:
    with closing(sqlite3.connect(path)) as db:
        yield "\n".join(db.iterdump()).encode()


_INSIDE = {".duckdb": _of_duckdb, ".parquet": _of_parquet, ".db": _of_sqlite}


def everything(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and bytes of every file of a folder, and for databases also their rows."""
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        yield name, name.encode()
        if path.is_file():
            yield name, path.read_bytes()
            for content in _INSIDE.get(path.suffix, lambda _: iter(()))(path):
                yield f"{name}, asked", content


def holding(folder: Path, secret: str) -> set[str]:
    """Return the files of a folder that contain a secret, in any encoding."""
    return {name for name, content in everything(folder) if tells(content, secret)}


def tells(content: bytes | str, secret: str) -> bool:
    """Return whether a text contains a secret, in any encoding."""
    data = content.encode(errors="surrogateescape") if isinstance(content, str) else content
    return any(spelling in data for spelling in spellings(secret))

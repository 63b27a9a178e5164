"""Answers that repeat a secret wherever an answer has text, and the search for it in all files of a folder."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from urllib.parse import quote

import duckdb

# Status, headers and body.
Answer = tuple[int, dict[str, str], bytes]

# With characters that are escaped.
KEY = "cnry/7Zq4+f1e9b==Xw"
_TRACED = {"X-Correlation-ID": "0123456789ABCDEFGHJKMNPQRS"}

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


def envelope(message: str, code: str = "api_unauthorized", **more: object) -> bytes:
    """Return the body of an error of the service."""
    return json.dumps({"error": {"code": code, "message": message, **more}}).encode()


def page(items: object, cursor: object = None, **more: object) -> bytes:
    """Return the body of a page."""
    return json.dumps({"items": items, "next_cursor": cursor, **more}).encode()


def echoes(key: str) -> dict[str, Answer]:
    """Return answers that repeat a key, none of them a page, by the place where they do."""
    raw, issues = b'{"error":{"code":"api_unauthorized","message":"%s"}}', {"issues": [{"code": key, "path": [0]}]}
    escaped, signs = _escaped(key, "04x", signs_only=False), _escaped(key, "04X", signs_only=True)
    found: dict[str, Answer] = {
        "message": (403, {}, envelope(f"no such key: Bearer {key}", "api_forbidden")),
        "message, cut in the middle of it": (403, {}, envelope("x" * 195 + key, "api_forbidden")),
        "code": (403, {}, envelope("No.", key)),
        "issue": (422, {}, envelope("No.", "api_validation_error", details=issues)),
        "no JSON": (418, {"content-type": "text/html"}, f"<script>Bearer {key}</script>".encode()),
        "content type": (409, {"content-type": f"text/{key}"}, b"<"),
        "location": (302, {"location": f"https://{key}.evil.example/?key={key}"}, b""),
        "retry-after": (403, {"retry-after": key, "date": key}, envelope("Slow.", "api_forbidden")),
        "correlation id": (403, {"X-Correlation-ID": key}, envelope("No.", "api_forbidden", correlation_id=key)),
        "coding": (200, {"content-encoding": key}, b"x"),
        "cursor that is none": (200, {}, page([], {key: key})),
        "page that is none": (200, {}, page(key, key * 99, **{key: 1})),
        "page that is no JSON": (200, {}, f'{{"items": [{{"{key}": {key}'.encode()),
        "content type of a page": (200, {"content-type": f"text/{key}"}, b"<html>"),
        "JSON escapes": (403, {}, raw % escaped),
        "JSON escapes of signs": (403, {}, raw % signs),
        "JSON's slash": (403, {}, raw % key.replace("/", "\\/").encode()),
        "percent": (403, {}, envelope(f"/login?key={quote(key, safe='')}", "api_forbidden")),
    }
    return {name: (status, {**_TRACED, **headers}, body) for name, (status, headers, body) in found.items()}


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

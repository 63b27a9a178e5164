"""Tests of the secret search: a canary is found in every encoding and in every file."""

import base64
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import duckdb
import pytest

from tests.security.canary import holding, tells

KEY = "cnry/7Zq4+f1e9b==Xw"


@pytest.mark.parametrize(
    "text",
    [
        f"Bearer {KEY}!",
        quote(KEY),
        quote(KEY, safe=""),
        quote(KEY, safe="").lower(),
        KEY.replace("/", "\\/"),
        json.dumps(KEY),
        "".join(f"\\u{ord(char):04X}" for char in KEY),
        KEY.replace("+", "\\u002b").replace("/", "\\u002f").replace("=", "\\u003d"),
        KEY.encode().hex(),
        f"Bearer {KEY}".encode().hex().upper(),
        *(base64.b64encode((before + KEY + "after").encode()).decode() for before in ("", "x", "xy", "user:")),
        base64.urlsafe_b64encode(f"Bearer {KEY}".encode()).decode(),
    ],
)
def test_every_spelling_is_known(text: str) -> None:
    assert tells(text, KEY)
    assert not tells(text, "another" + KEY[::-1])


def test_it_is_found_where_bytes_alone_do_not_show_it(tmp_path: Path) -> None:
    rows = f"SELECT i, 'filler ' || i AS filler, '{KEY} ' || (i % 7) AS text FROM range(50000) AS r(i)"
    with duckdb.connect(str(tmp_path / "a.duckdb")) as db:
        db.execute("CREATE SCHEMA inner_room")
        db.execute(f"CREATE TABLE inner_room.t AS {rows}")
        db.execute(f"COPY inner_room.t TO '{tmp_path / 'b.parquet'}' (FORMAT parquet, COMPRESSION zstd)")
    with closing(sqlite3.connect(tmp_path / "c.db")) as lite:
        lite.execute("CREATE TABLE t (text)")
        lite.executemany("INSERT INTO t VALUES (?)", [("y" * 3900 + KEY,)] * 9)
        lite.commit()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "d.log").write_text(f"... {KEY} ...")
    (tmp_path / "sub" / "clean.log").write_text("nothing")
    (tmp_path / KEY.replace("/", "")).touch()
    found = holding(tmp_path, KEY)
    assert {"a.duckdb, asked", "b.parquet, asked", "c.db, asked", "sub/d.log"} <= found
    assert "sub/clean.log" not in found
    assert holding(tmp_path, KEY.replace("/", "")) == {KEY.replace("/", "")}

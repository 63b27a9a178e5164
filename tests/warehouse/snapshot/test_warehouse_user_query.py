"""`gramhouse query`: read-only statements, and exact output of every value."""

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import msgspec
import pytest

from connectors.warehouse.queries.reader import Snapshot, open_snapshot
from connectors.warehouse.storage.sql import literal
from models.errors import QueryError, WarehouseUnusable


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Snapshot]:
    path = tmp_path_factory.mktemp("query") / "s.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS a, 'x' AS b")
    with open_snapshot(path) as opened:
        yield opened


def answer(snapshot: Snapshot, text: str) -> list[tuple[object, ...]]:
    return [row for batch in snapshot.user_query(text).batches for row in batch]


def test_read_only_statements_are_executed(snapshot: Snapshot) -> None:
    for text in (
        "-- a comment\nSELECT 1 /* ; CALL enable_logging() */",
        "WITH x AS (SELECT 1) FROM x",
        "DESCRIBE t",
        "EXPLAIN ANALYZE FROM t",
        "PIVOT t ON b USING sum(a)",
        "SELECT 1; SELECT 2",
        "SELECT 'CALL enable_logging' AS caption, 5--1\n",
    ):
        assert answer(snapshot, text)


@pytest.mark.parametrize(
    "text",
    ["SELEC", "SELECT 'open", "EXPLAIN", "SELECT nope", "", ";", "-- nothing", "\x00", "SELECT $1",
     "EXPLAIN ANALYZE INSERT INTO t VALUES (1, 'x')", "EXPLAIN ANALYZE WITH x AS (FROM t) INSERT INTO t FROM x"],
)  # fmt: skip
def test_text_that_is_not_a_statement_is_refused(snapshot: Snapshot, text: str) -> None:
    with pytest.raises(QueryError):
        snapshot.user_query(text)


@pytest.mark.parametrize(
    ("expression", "text", "in_json"),
    [
        ("INTERVAL '100000000 years'", "100000000 years", "100000000 years"),
        ("DATE '0044-03-15 (BC)'", "0044-03-15 (BC)", "0044-03-15 (BC)"),
        ("TIMESTAMP_NS '2026-03-01 00:00:00.123456789'", "2026-03-01 00:00:00.123456789",
         "2026-03-01 00:00:00.123456789"),
        ("TIMESTAMPTZ '2026-03-01 00:00:00+00'", "2026-03-01 00:00:00+00", "2026-03-01T00:00:00+00:00"),
        ("{'a': [TIMESTAMPTZ 'infinity', DATE '-infinity']}", "{'a': [infinity, -infinity]}",
         {"a": ["infinity", "-infinity"]}),
        ("TIME '24:00:00'", "24:00:00", "24:00:00"),
        ("'1e37'::DECIMAL(38, 0)", "1" + 37 * "0", "1" + 37 * "0"),
        ("340282366920938463463374607431768211455::UHUGEINT", "340282366920938463463374607431768211455", 2**128 - 1),
        ("['NaN'::DOUBLE, 1.5]", "[nan, 1.5]", "[NaN,1.5]"),
        (r"'\xAA\x00a'::BLOB", r"\xAA\x00a", r"\xAA\x00a"),
        ("MAP {1: NULL, 2: ['a']}", "{1=NULL, 2=[a]}", {"1": None, "2": ["a"]}),
        ("NULL", None, None),
    ],
)  # fmt: skip
def test_every_value_is_exact(snapshot: Snapshot, expression: str, text: str | None, in_json: object) -> None:
    query = f"SELECT {expression} AS v, 1 AS w -- a comment"
    assert answer(snapshot, query) == [(text, "1")]
    [row] = [row for batch in snapshot.user_query(query, for_json=True).batches for row in batch]
    assert json.loads(msgspec.json.encode(row)) == [in_json, 1]


def test_json_stays_as_it_is_if_it_is_json(snapshot: Snapshot) -> None:
    for text, in_json in (
        ('{"a": 1, "a": 12345678901234567890.123}', '{"a": 1, "a": 12345678901234567890.123}'),
        ('{"a":\n [1]}', '{"a": [1]}'),
        ('{"a": NaN}', r'"{\"a\": NaN}"'),
        ("[" * 5000 + "]" * 5000, '"' + "[" * 5000 + "]" * 5000 + '"'),
    ):
        query = f"SELECT {literal(text)}::JSON AS v, ['{{}}'::JSON] AS w"
        [row] = [row for batch in snapshot.user_query(query, for_json=True).batches for row in batch]
        assert msgspec.json.encode(row).decode() == f"[{in_json},[{{}}]]"


def test_columns_of_the_same_name_are_renamed(snapshot: Snapshot) -> None:
    stream = snapshot.user_query('SELECT 1 AS a, 2 AS a, 3 AS "A", 4 AS a_1, 5 AS a', for_json=True)
    assert stream.columns == ("a", "a_1", "A_2", "a_1_1", "a_3")
    assert [len(row) for batch in stream.batches for row in batch] == [5]


def test_the_order_of_rows_and_names_of_columns_stay(snapshot: Snapshot) -> None:
    query = "SELECT i, DATE '2026-01-01' AS day, i AS \"I \" FROM range(100000) t(i) ORDER BY i % 7, i DESC"
    stream = snapshot.user_query(query)
    assert stream.columns == ("i", "day", "I ")
    rows = [int(row[0]) for batch in stream.batches for row in batch]
    assert rows == sorted(range(100_000), key=lambda i: (i % 7, -i))


def test_a_damaged_snapshot_is_no_wrong_query(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute("CREATE TABLE t AS SELECT md5(range::VARCHAR) AS a FROM range(50000)")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with open_snapshot(path) as opened, pytest.raises(WarehouseUnusable, match=r"Corrupt .*Fix: `gramhouse publish`"):
        answer(opened, "SELECT max(a) FROM t")

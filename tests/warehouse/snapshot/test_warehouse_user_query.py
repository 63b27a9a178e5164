"""`gramhouse query`: read-only statements, and exact output of every value."""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from connectors.warehouse.snapshot.reader import Snapshot, open_snapshot
from connectors.warehouse.snapshot.user_query import statements
from connectors.warehouse.storage.errors import QueryError


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("query") / "s.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS a, 'x' AS b")
    return path


@pytest.fixture
def snapshot(path: Path) -> Iterator[Snapshot]:
    with open_snapshot(path) as opened:
        yield opened


def answer(snapshot: Snapshot, text: str) -> list[tuple[object, ...]]:
    return [row for batch in snapshot.user_query(text).batches for row in batch]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "select 1;",
        "-- a comment\nSELECT 1 /* ; CALL enable_logging() */",
        "(SELECT 1)",
        "FROM t",
        "TABLE t",
        "VALUES (1)",
        "WITH x AS (SELECT 1) FROM x",
        "DESCRIBE t",
        "DESC t",
        "SHOW TABLES",
        "SUMMARIZE t",
        "EXPLAIN SELECT 1",
        "EXPLAIN (FORMAT json) (SELECT 1)",
        "EXPLAIN ANALYZE FROM t",
        "PIVOT t ON b USING sum(a)",
        "WITH x AS (FROM t) PIVOT x ON b USING sum(a)",
        "FROM (PIVOT t ON b USING sum(a))",
        "UNPIVOT t ON a INTO NAME n VALUE v",
        "SELECT 1; SELECT 2",
        "SELECT 'CALL enable_logging' AS caption, 5--1\n",
    ],
)
def test_read_only_statements_are_executed(snapshot: Snapshot, text: str) -> None:
    assert answer(snapshot, text)


@pytest.mark.parametrize(
    "text",
    [
        "CALL enable_logging(level = 'trace')",
        "/* SELECT 1 */ CALL enable_logging()",
        "SELECT 1; CALL enable_logging()",
        "SELECT 'é'; CHECKPOINT",
        "FROM enable_logging(storage = 'file', storage_config = {'path': 'logs'})",
        'FROM "enable_logging" /* a comment */ ()',
        "FROM query('FROM Enable_Logging()')",
        "SELECT * FROM query('FROM enable_log' || 'ging()')",
        "FROM enable_profiling(format = 'json', save_location = 'profile.json')",
        "FROM checkpoint()",
        "SELECT write_log('x')",
        "PRAGMA version",
        "PRAGMA enable_profiling",
        "SET threads = 1",
        "USE main",
        "VACUUM",
        "ANALYZE",
        "EXECUTE p",
        "CREATE TEMP TABLE q AS SELECT 1",
        "WITH x AS (FROM t) INSERT INTO t FROM x",
        "EXPLAIN CALL enable_logging()",
        "EXPLAIN SET threads = 1",
        "EXPLAIN ANALYZE INSERT INTO t VALUES (1, 'x')",
        "EXPLAIN ANALYZE WITH x AS (FROM t) INSERT INTO t FROM x",
        "EXPLAIN (ANALYZE, FORMAT json) CREATE TEMP TABLE q AS SELECT 1",
        "EXPLAIN ANALYZE CREATE TEMP TABLE q AS FROM (PIVOT t ON b USING sum(a))",
    ],
)
def test_statements_that_do_more_than_read_are_refused_in_one_line(snapshot: Snapshot, text: str) -> None:
    with pytest.raises(QueryError) as caught:
        snapshot.user_query(text)
    assert len(str(caught.value).splitlines()) == 1
    assert re.match(r"Only statements that read|\w+ does not read the snapshot", str(caught.value))


@pytest.mark.parametrize("text", ["SELEC", "SELECT 'open", "EXPLAIN", "SELECT nope", "", ";", "-- nothing", "\x00"])
def test_text_that_is_not_a_statement_is_refused(snapshot: Snapshot, text: str) -> None:
    with pytest.raises(QueryError):
        snapshot.user_query(text)


def test_the_statements_of_a_question() -> None:
    assert statements("SELECT 1; SELECT ';é' ; -- x\n") == ["SELECT 1", " SELECT ';é' "]
    assert statements(" ;; ") == []


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("INTERVAL '100000000 years'", "100000000 years"),
        ("INTERVAL '3 months'", "3 months"),
        ("[INTERVAL '100000000 years']", "[100000000 years]"),
        ("{'a': INTERVAL '100000000 years'}", "{'a': 100000000 years}"),
        ("DATE '290000-01-01'", "290000-01-01"),
        ("DATE '0044-03-15 (BC)'", "0044-03-15 (BC)"),
        ("DATE 'infinity'", "infinity"),
        ("DATE '2026-03-01'", "2026-03-01"),
        ("TIMESTAMP '-infinity'", "-infinity"),
        ("TIMESTAMP '0001-01-01'", "0001-01-01 00:00:00"),
        ("TIMESTAMP '290000-01-01'", "290000-01-01 00:00:00"),
        ("TIMESTAMPTZ 'infinity'", "infinity"),
        ("TIMESTAMPTZ '-infinity'", "-infinity"),
        ("TIMESTAMPTZ '290000-01-01 00:00:00+00'", "290000-01-01 00:00:00+00"),
        ("TIMESTAMPTZ '2026-03-01 00:00:00+00'", "2026-03-01 00:00:00+00:00"),
        ("TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'", "9999-12-31 23:59:59.999999+00:00"),
        ("TIME '24:00:00'", "24:00:00"),
        ("'1e37'::DECIMAL(38, 0)", "1" + 37 * "0"),
        ("340282366920938463463374607431768211455::UHUGEINT", "340282366920938463463374607431768211455"),
    ],
)
def test_values_that_python_cannot_hold_are_text(snapshot: Snapshot, expression: str, shown: str) -> None:
    rows = answer(snapshot, f"SELECT {expression} AS v, 1 AS v -- a comment")
    assert [(str(value), one) for value, one in rows] == [(shown, 1)]


def test_a_value_that_cannot_be_text_causes_no_traceback(snapshot: Snapshot) -> None:
    with pytest.raises(QueryError, match="cast it to VARCHAR"):
        answer(snapshot, "SELECT 1; SELECT INTERVAL '100000000 years'")


def test_the_order_of_rows_and_names_of_columns_stay(snapshot: Snapshot) -> None:
    query = "SELECT i, DATE '2026-01-01' AS day, i AS \"I \" FROM range(100000) t(i) ORDER BY i % 7, i DESC"
    stream = snapshot.user_query(query)
    assert stream.columns == ("i", "day", "I ")
    rows = [row[0] for batch in stream.batches for row in batch]
    assert rows == sorted(range(100_000), key=lambda i: (i % 7, -i))

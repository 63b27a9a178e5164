"""What others ask: the selection of a backfill, in the warehouse and in its snapshot, and `gramhouse query`."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path

import duckdb
import msgspec
import pytest

from connectors.warehouse.queries.reader import Snapshot, open_snapshot
from connectors.warehouse.queries.selection import choose_accounts
from connectors.warehouse.storage.sql import literal
from models.feeds import CATALOGUE, media
from models.files import QueryError, WarehouseUnusable
from models.runs import OutcomeKind, RunState
from models.selection import ChosenAccount, Selection, SelectionError
from tests.warehouse.rig import ANNA, BEN, Rig, account, at

CARA = "cccccccc-2222-4333-8444-555555555555"
GONE = "dddddddd-2222-4333-8444-555555555555"
BOTH = ("stories", "posts")

Found = list[tuple[str | None, tuple[str, ...]]]
Chooser = Callable[[Selection], Found]


@pytest.fixture
def peopled(rig: Rig) -> Rig:
    """Anna is active and was expired until hour 11; Ben is expired since then; Cara is active; one is gone."""
    expired = "token_expired"
    gone = account(GONE, name="gone")
    rig.scan(CATALOGUE, 0, [account(ANNA, name="anna", status=expired), account(BEN, name="Ben"), gone])
    listed = [account(ANNA, name="anna"), account(BEN, name="Ben", status=expired), account(CARA, name="cara")]
    for hour in (11, 24):
        rig.scan(CATALOGUE, hour, listed)
    return rig


@pytest.fixture
def choose(peopled: Rig) -> Chooser:
    """Choose in the warehouse and in its snapshot; both must answer the same."""

    @cache
    def publish(_: int) -> Path:
        return peopled.publish()

    def both(selection: Selection) -> Found:
        found = choose_accounts(peopled.db, selection)
        with open_snapshot(publish(len(peopled.runs))) as snapshot:
            assert choose_accounts(snapshot.db, selection) == found
        return [(one.username, one.surfaces) for one in found]

    return both


BEN_AND_CARA: Found = [("Ben", BOTH), ("cara", BOTH)]
SINCE = at(11) + timedelta(minutes=1)
CHOSEN: list[tuple[Selection, Found]] = [
    (Selection((ANNA,), surfaces=("posts",)), [("anna", ("posts",))]),
    (Selection((ANNA,), surfaces=("posts", "stories", "posts")), [("anna", BOTH)]),
    *((Selection(typed), BEN_AND_CARA) for typed in (
        (BEN, CARA), (CARA, BEN.upper(), BEN), ("ben", "@CARA"), (" @Ben ", CARA.upper()))),
    # Those whose token was expired at any time since.
    (Selection(expired_since=SINCE), [("Ben", BOTH), ("anna", BOTH)]),
    (Selection(expired_since=SINCE + timedelta(minutes=1)), [("Ben", BOTH)]),
    (Selection(failed=True), []),
]  # fmt: skip


def test_accounts_are_found_by_id_or_name_in_any_case_each_once_by_name(peopled: Rig, choose: Chooser) -> None:
    for selection, found in CHOSEN:
        assert choose(selection) == found, selection
    [ben] = choose_accounts(peopled.db, Selection((BEN,)))
    assert ben == ChosenAccount(BEN, status="token_expired", username="Ben")


def test_unknown_accounts_are_named_with_a_hint(choose: Chooser) -> None:
    for typed, message in (
        (("abc",), "There is no account 'abc' in the warehouse"),
        ((ANNA, "@x\n; DROP TABLE t"), "There is no account '@x ; DROP TABLE t' in the warehouse"),
        ((GONE, "x"), f"'{GONE}' left the catalogue"),
        # The public id of all of them.
        (("K3XW9QBT5MZA",), "'K3XW9QBT5MZA' is the name of more than one account"),
    ):
        hint = ". Fix: `gramhouse accounts` lists all with their ids, and a sync finds new ones."
        with pytest.raises(SelectionError, match=f"^{re.escape(message + hint)}$"):
            choose(Selection(typed, everything=True))


def test_failed_selects_partitions_left_unfinished_by_their_last_attempt(peopled: Rig, choose: Chooser) -> None:
    kinds = OutcomeKind
    peopled.run("older", 30, {media(CARA, "stories"): kinds.FAILED})
    outcomes = {
        CATALOGUE: kinds.DENIED,
        media(ANNA, "posts"): kinds.DEFERRED,
        media(ANNA, "stories"): kinds.COMPLETE,
        media(BEN, "posts"): kinds.SKIPPED,
        media(BEN, "stories"): kinds.NOT_FOUND,
        media(CARA, "posts"): kinds.FAILED,
        media(CARA, "stories"): kinds.DENIED,
        media(GONE, "posts"): kinds.FAILED,
    }
    peopled.run("last", 40, outcomes)
    peopled.run("under way", 50, {media(BEN, "posts"): kinds.FAILED}, state=None)
    peopled.run("cut short", 60, {media(BEN, "posts"): kinds.FAILED}, state=RunState.INTERRUPTED)
    assert choose(Selection(failed=True)) == [("Ben", BOTH), ("anna", ("posts",)), ("cara", BOTH)]
    posts = [(name, ("posts",)) for name in ("Ben", "anna", "cara")]
    assert choose(Selection(("ben",), failed=True, surfaces=("posts",))) == posts
    peopled.run("well", 70, {media(ANNA, "posts"): kinds.COMPLETE})
    assert choose(Selection(failed=True)) == BEN_AND_CARA


def test_failed_without_failed_accounts_suggests_a_sync(peopled: Rig, choose: Chooser) -> None:
    outcomes = {CATALOGUE: OutcomeKind.FAILED, media(ANNA, "posts"): OutcomeKind.COMPLETE}
    peopled.run("r", 30, outcomes, state=RunState.FAILED)
    with pytest.raises(SelectionError, match="The account catalogue could not be fetched by the last run"):
        choose(Selection(failed=True))


def test_a_selection_has_the_same_text_in_every_spelling() -> None:
    typed = Selection(("b", "a", "b"), expired_since=at(0), failed=True, surfaces=("posts", "stories"))
    assert str(typed) == "a, b, --expired-since 2026-03-01T02:00:00Z, --failed (stories, posts)"
    assert str(Selection(everything=True, surfaces=("posts",))) == "--all (posts)"


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

"""The views that are computed from others: a few rows in, and the rows out."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import duckdb
import pytest
from duckdb import DuckDBPyConnection

from docs.generate import is_stored
from models.feeds import CATALOGUE
from models.views import views
from tests.snapshots import as_tables
from tests.warehouse import rig as warehouse
from tests.warehouse.rig import POSTS, STORIES, Rig, Row, at, opened

VIEWS = {name: view for name, view in views().items() if not is_stored(view)}

# In New York, where tests read, it is still the day before, and four days ago clocks went forward.
NOW = datetime(2026, 3, 12, 3, 15, tzinfo=UTC)
TODAY = date(2026, 3, 12)

Record = dict[str, Any]
Rows = dict[str, list[Record]]


def ago(days: float = 0, hours: float = 0) -> datetime:
    return NOW - timedelta(days=days, hours=hours)


def rows(columns: str, *values: Row) -> list[Record]:
    return [dict(zip(columns.split(), each, strict=True)) for each in values]


def account(name: str, **more: object) -> Record:
    return {"account_id": name, "ig_username": name.upper(), "status": "active", "first_seen_at": ago(500), **more}


def item(account_id: str, media_id: str, published_at: datetime | None, **more: object) -> Record:
    key = {"account_id": account_id, "ig_username": account_id.upper(), "surface": "posts", "media_id": media_id}
    return {**key, "published_at": published_at, "last_seen_at": NOW, **more}


def counts(media_id: str, metric: str, *seen: tuple[datetime, int | None], surface: str = "posts") -> list[Record]:
    of_item = "anna", surface, media_id, metric
    return rows("account_id surface media_id metric observed_at value", *((*of_item, *each) for each in seen))


def scan(account_id: str, surface: str, complete_at: datetime, **more: object) -> Record:
    return {"resource": "media", "account_id": account_id, "surface": surface, "complete_at": complete_at, **more}


def regular_posts(account_id: str, number: int, *, silent: datetime, gap: float) -> list[Record]:
    """Posts, one every `gap` days, the last of them at `silent`."""
    return [item(account_id, str(nth), silent - timedelta(days=gap * nth)) for nth in range(number)]


def version(
    since: datetime, until: datetime | None, caption: str | None, surface: str = "posts", *, is_edited: bool = False
) -> Record:
    key = {"account_id": "anna", "ig_username": "ANNA", "surface": surface, "media_id": "1"}
    columns = None if until is None else ["caption", "tags"] if is_edited else ["tags"]
    return {**key, "valid_from": since, "valid_to": until, "caption": caption, "columns": columns}


# Three posts with likes around the median; three without likes, without a time, and seen for less than seven days; and
# an account whose median is 0. On a Monday, at three o'clock in UTC.
MONDAY, WEEK_BEFORE = ago(10), ago(17)
RIPE = [
    item("anna", "1", MONDAY, like_count=10, last_seen_at=ago(3)),
    item("anna", "2", WEEK_BEFORE, like_count=20),
    item("anna", "3", ago(16, 2), like_count=60),
    item("anna", "4", MONDAY, like_count=None),
    item("anna", "5", None, like_count=900),
    item("anna", "6", MONDAY, like_count=900, last_seen_at=ago(3, 1)),
    item("anna", "7", MONDAY, like_count=900, surface="stories"),
    item("ben", "1", MONDAY, like_count=5),
    item("carl", "1", MONDAY, like_count=0),
]
TAGS = ["a #Sun and #sun, #\u00e9t\u00e9_26", "#sun", "plain # text", None, "#sun", "#new", "#story", "#sun", None]

# Of each view, rows of tables, and the rows that follow from them.
CASES: dict[str, tuple[Rows, list[Row]]] = {
    "observed": (
        {
            "accounts": [account("anna", first_seen_at=ago(3)), account("gone", first_seen_at=ago(2))],
            "account_status_history": rows("account_id status valid_from", ("gone", "removed", ago(1))),
            # Of the older runs, more than 30 ago, equal outcomes were deleted.
            "runs": rows(
                "run_id seq kind state ended_at",
                ("1", 1, "sync", "complete", ago(3)), ("2", 2, "sync", "interrupted", ago(2, 1)),
                ("3", 3, "sync", "partial", ago(2)),
                *((str(seq), seq, "sync", "complete", ago(1)) for seq in range(4, 34)),
            ),
            "run_outcomes": rows(
                "run_id account_id surface outcome pages ended_at error_code",
                ("1", "anna", "posts", "complete", 3, ago(3), None),
                ("1", "anna", "stories", "deferred", 2, ago(3), "rate_limited"),
                ("33", "anna", "stories", "recent", 1, ago(1), None),
                ("33", "gone", "posts", "deferred", 0, ago(1), "rate_limited"),
                ("33", "anna", "undeclared", "complete", 0, ago(1), None),
            ),
        },
        [
            ("anna", "ANNA", "posts", TODAY - timedelta(3), "complete", None),
            ("anna", "ANNA", "posts", TODAY - timedelta(2), "complete", None),
            ("anna", "ANNA", "posts", TODAY - timedelta(1), "no", "not_scanned"),
            ("anna", "ANNA", "posts", TODAY, "no", "not_scanned"),
            ("anna", "ANNA", "stories", TODAY - timedelta(3), "partly", "rate_limited"),
            ("anna", "ANNA", "stories", TODAY - timedelta(2), "no", "not_scanned"),
            ("anna", "ANNA", "stories", TODAY - timedelta(1), "complete", None),
            ("anna", "ANNA", "stories", TODAY, "no", "not_scanned"),
            ("gone", "GONE", "posts", TODAY - timedelta(2), "no", "not_scanned"),
            ("gone", "GONE", "stories", TODAY - timedelta(2), "no", "not_scanned"),
        ],
    ),
    "freshness": (
        {
            "accounts": [account("anna"), account("gone", removed_at=ago(1))],
            "completed_scans": [
                scan(
                    "anna", "posts", ago(9), recent_at=ago(2), covered_from=ago(3), item_order="newest_first",
                    full_share=0.5, items_missing=2, removals_undecided_since=ago(4),
                ),
                scan("anna", "stories", ago(6), full_share=1.0, items_missing=0),
                scan("anna", "undeclared", ago()),
                scan("gone", "posts", ago()),
            ],
            # The clock was ahead during the first run.
            "runs": rows("run_id seq", ("first", 1), ("second", 2)),
            "run_outcomes": rows(
                "run_id account_id surface outcome ended_at error_code resume_after",
                ("second", "anna", "posts", "deferred", ago(2), "rate_limited", NOW),
                ("first", "anna", "posts", "failed", ago(1), None, None),
                ("first", "anna", "stories", "failed", ago(3), "rate_limited", NOW),
                ("first", "anna", "undeclared", "failed", ago(3), None, None),
            ),
            "gaps": rows("account_id surface since", ("anna", "posts", ago(5))),
            "due_scans": rows(
                "account_id surface due_at due_reason",
                *((name, "posts", ago(1), "retry") for name in ("anna", "gone")),
            ),
        },
        [
            (
                *("anna", "ANNA", "posts", ago(9), ago(2), ago(3), "newest_first", ago(5.5), ago(5)),
                *("deferred", "rate_limited", NOW, ago(2), ago(1), "retry"),
                *(2 * 86_400.0, ago(0.5), 2 * 86_400, True, 2, ago(4)),
            ),
            (
                *("anna", "ANNA", "stories", ago(6), None, None, None, None, None),
                *("failed", "rate_limited", NOW, ago(3), None, None),
                *(6 * 86_400.0, ago(4.5), 6 * 86_400, True, 0, None),
            ),
        ],
    ),
    "expired_accounts": (
        {
            "accounts": [
                account("anna", status="token_expired", token_expired_since=ago(3)),
                account("ben", status="token_expired"),
                account("carl"),
                account("dora", status="token_expired"),
                account("gone", status="token_expired", removed_at=ago(1)),
            ],
            "completed_scans": [
                scan("anna", "posts", ago(9), recent_at=ago(5)),
                scan("anna", "stories", ago(7)),
                scan("anna", "undeclared", ago(8)),
                scan("dora", "posts", ago(1)),
            ],
        },
        # The stories of dora were never scanned to the end.
        [("anna", "ANNA", ago(3), ago(7)), ("ben", "BEN", None, None), ("dora", "DORA", None, None)],
    ),
    "posting_cadence": (
        {
            "accounts": [account("anna"), account("ben"), account("carl"), account("gone", removed_at=ago(1))],
            "media": [
                # The last 20 gaps are of one day or of three, and the others of fifty.
                *regular_posts("anna", 11, silent=ago(0), gap=1),
                *regular_posts("anna", 10, silent=ago(13), gap=3),
                *regular_posts("anna", 25, silent=ago(89), gap=50),
                item("anna", "without a time", None),
                *(item("ben", str(days), ago(days)) for days in (7, 28, 90, 500)),
                item("carl", "1", ago(1), surface="stories"),
                item("gone", "1", ago(1)),
            ],
            "completed_scans": [
                scan("ben", "posts", ago(9), recent_at=ago(5)),
                scan("ben", "stories", ago(1)),
            ],
        },
        [
            ("anna", "ANNA", 46, 7, 16, 22, 4.0, 2.0, NOW, 0.0, None),
            ("ben", "BEN", 4, 0, 1, 2, 0.25, 62.0, ago(7), 7.0, ago(5)),
            ("carl", "CARL", 0, 0, 0, 0, 0.0, None, None, None, None),
        ],
    ),
    "stale_accounts": (
        {
            "accounts": [
                *map(account, ("fresh", "old", "never", "four", "daily", "slow", "stopped")),
                *(account(name, status="token_expired") for name in ("expired", "expired today", "expired before")),
                account("gone", removed_at=ago(9)),
            ],
            "completed_scans": [
                *(scan(name, "posts", ago()) for name in ("four", "daily", "slow", "stopped")),
                *(scan(name, "posts", ago(0, 36)) for name in ("fresh", "expired today")),
                scan("fresh", "stories", ago(9)),
                *(scan(name, "posts", ago(0, 37)) for name in ("old", "expired before", "gone")),
            ],
            # Silent for ten days after four posts; for exactly a week; for exactly three times the gap; and for longer.
            "media": [
                *regular_posts("four", 4, silent=ago(10), gap=1),
                *regular_posts("daily", 5, silent=ago(7), gap=1),
                *regular_posts("slow", 5, silent=ago(9), gap=3),
                *regular_posts("stopped", 5, silent=ago(9, 12), gap=3),
            ],
        },
        [
            ("expired", "EXPIRED", "token_expired", None, None, None, None),
            ("expired before", "EXPIRED BEFORE", "token_expired", ago(0, 37), None, None, None),
            ("never", "NEVER", "never_scanned", None, None, None, None),
            ("old", "OLD", "not_scanned", ago(0, 37), None, None, None),
            ("stopped", "STOPPED", "stopped_posting", NOW, ago(9, 12), 9.5, 3.0),
        ],
    ),
    "engagement_by_day": (
        {
            "accounts": [account("anna")],
            "media": [
                item("anna", "1", ago(2)),
                item("anna", "2", None),
                item("anna", "3", ago(2)),
                item("anna", "4", NOW, surface="stories"),
                item("unlisted", "1", NOW),
            ],
            "media_metrics": [
                # Hidden, and withdrawn likes.
                *counts("1", "like_count", (ago(1), 5), (ago(0, 12), None), (ago(), 3)),
                *counts("1", "comments_count", (ago(0, 1), 7)),
                # Of an unknown age, and 48 hours old when it was first seen.
                *counts("2", "like_count", (ago(1), 100), (ago(), 104)),
                *counts("2", "save_count", (ago(5), 1), (ago(4), 2)),
                *counts("3", "like_count", (ago(), 100)),
                *counts("4", "like_count", (ago(), 100), surface="stories"),
            ],
        },
        [
            ("anna", "ANNA", TODAY - timedelta(days=2), None, None, 2),
            ("anna", "ANNA", TODAY - timedelta(days=1), 5, None, 0),
            ("anna", "ANNA", TODAY, 2, 7, 0),
            ("unlisted", None, TODAY, None, None, 1),
        ],
    ),
    "post_growth": (
        {
            "media": [
                item("anna", "1", ago(10)),
                item("anna", "2", ago(1), last_seen_at=ago(0, 1)),
                item("anna", "3", None),
                item("anna", "1", ago(10), surface="stories"),
            ],
            "media_metrics": [
                # Exactly 24 hours and seven days after publication, and later.
                *counts("1", "like_count", (ago(9, 12), 2), (ago(9), 5), (ago(8), 7), (ago(3), 8), (ago(1), 6)),
                # Hidden at first, and vanished; and never there.
                *counts("1", "comments_count", (ago(9, 12), None), (ago(9), 1), (ago(8, 12), 3), (ago(8), None)),
                *counts("1", "save_count", (ago(9), None)),
                *counts("2", "like_count", (ago(0, 1), 9)),
                *counts("3", "like_count", (ago(1), 9)),
                *counts("1", "like_count", (NOW, 9), surface="stories"),
            ],
        },
        [
            (
                *("anna", "ANNA", "1", ago(10), "comments_count", 1, ago(9), 3, ago(8, 12), ago(8), 2, 2.0),
                *(1, None, "posts"),
            ),
            ("anna", "ANNA", "1", ago(10), "like_count", 2, ago(9, 12), 6, ago(1), None, 4, 4 / 9.5, 5, 8, "posts"),
            ("anna", "ANNA", "2", ago(1), "like_count", 9, ago(0, 1), 9, ago(0, 1), None, 0, None, None, None, "posts"),
            ("anna", "ANNA", "3", None, "like_count", 9, ago(1), 9, ago(1), None, 0, 0.0, None, None, "posts"),
        ],
    ),
    "post_performance": (
        {"media": RIPE},
        [
            ("anna", "ANNA", "1", MONDAY, 10, 20.0, 0.5, "posts"),
            ("anna", "ANNA", "2", WEEK_BEFORE, 20, 20.0, 1.0, "posts"),
            ("anna", "ANNA", "3", ago(16, 2), 60, 20.0, 3.0, "posts"),
            ("ben", "BEN", "1", MONDAY, 5, 5.0, 1.0, "posts"),
            ("carl", "CARL", "1", MONDAY, 0, 0.0, None, "posts"),
        ],
    ),
    "best_hour": ({"media": RIPE}, [(1, 3, 3, 2, 1.0), (2, 1, 1, 1, 3.0)]),
    "best_hour_by_account": (
        {"media": RIPE},
        [
            ("anna", "ANNA", 1, None, 2, 15.0, 0.75),
            ("anna", "ANNA", 2, None, 1, 60.0, 3.0),
            ("anna", "ANNA", None, 1, 1, 60.0, 3.0),
            ("anna", "ANNA", None, 3, 2, 15.0, 0.75),
            ("ben", "BEN", 1, None, 1, 5.0, 1.0),
            ("ben", "BEN", None, 3, 1, 5.0, 1.0),
        ],
    ),
    "caption_edits": (
        {
            # The current version may be as old as the one before it.
            "media_history": [
                version(ago(2), None, None),
                version(ago(2), ago(2), "b", is_edited=True),
                version(ago(3), ago(2), "a", is_edited=True),
                version(ago(4), ago(3), "a"),
                version(ago(5), ago(4), None, is_edited=True),
                version(ago(4), None, "of another surface", "stories"),
                # Versions that begin for another reason: the caption is only spelled differently.
                version(ago(9), ago(8), None, "reels"),
                version(ago(8), ago(7), "", "reels", is_edited=True),
                version(ago(7), ago(6), "caf\u00e9", "reels"),
                version(ago(6), None, "cafe\u0301", "reels"),
            ]
        },
        [
            ("anna", "posts", "1", "ANNA", ago(4), None, "a"),
            ("anna", "posts", "1", "ANNA", ago(2), "a", "b"),
            ("anna", "posts", "1", "ANNA", ago(2), "b", None),
            ("anna", "reels", "1", "ANNA", ago(7), "", "caf\u00e9"),
        ],
    ),
    "token_downtime": (
        {
            "account_status_history": rows(
                "account_id ig_username status valid_from valid_to",
                ("anna", "ANNA", "token_expired", ago(9), ago(7, 12)),
                ("anna", "ANNA", "active", ago(7, 12), ago(2)),
                ("anna", "ANNA", "token_expired", ago(2), None),
            )
        },
        [("anna", "ANNA", ago(9), ago(7, 12), 1.5), ("anna", "ANNA", ago(2), None, 2.0)],
    ),
    "hashtags": (
        {"media": [{**post, "caption": tags} for post, tags in zip(RIPE, TAGS, strict=True)]},
        [
            ("new", 1, 1, MONDAY, MONDAY, None),
            ("sun", 4, 2, WEEK_BEFORE, MONDAY, 1.0),
            ("\u00e9t\u00e9_26", 1, 1, MONDAY, MONDAY, 0.5),
        ],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBPyConnection]:
    """A published snapshot without a row, open for writing."""
    with opened(tmp_path_factory.mktemp("views")) as rig:
        path = rig.publish()
    path.chmod(0o644)
    with duckdb.connect(str(path)) as db:
        as_tables(db)
        hours = f"stale_after = {36 * 3600}, full_refresh_every = {7 * 86_400}"
        db.execute(f"UPDATE published SET snapshot_at = '{NOW}', {hours}")
        db.execute("SET TimeZone = 'America/New_York'")
        yield db


@pytest.fixture
def db(snapshot: DuckDBPyConnection) -> Iterator[DuckDBPyConnection]:
    """The same for one test."""
    snapshot.begin()
    # The reader's clock: this now() takes precedence over DuckDB's.
    snapshot.execute(f"CREATE OR REPLACE MACRO now() AS TIMESTAMPTZ '{NOW.isoformat()}'")
    yield snapshot
    snapshot.rollback()


def fill(db: DuckDBPyConnection, tables: Rows) -> None:
    """Replace the rows of tables."""
    for table, records in tables.items():
        db.execute(f"DELETE FROM {table}")
        for record in records:
            marks = ", ".join("?" * len(record))
            db.execute(f"INSERT INTO {table} ({', '.join(record)}) VALUES ({marks})", list(record.values()))


def ask(db: DuckDBPyConnection, query: str) -> list[Row]:
    return db.execute(f"{query} ORDER BY ALL NULLS LAST").fetchall()


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_has_the_rows_that_follow_from_its_tables(db: DuckDBPyConnection, view: str) -> None:
    tables, expected = CASES[view]
    fill(db, tables)
    if "media" in tables:
        # A post in ten years changes nothing.
        accounts = tables.get("accounts", [account("anna")])
        future = [item(each["account_id"], "in ten years", ago(-3650), like_count=1000) for each in accounts]
        fill(db, {"media": [*tables["media"], *future]})
        if view == "engagement_by_day":
            fill(db, {"media_metrics": [*tables["media_metrics"], *counts("in ten years", "like_count", (NOW, 1000))]})
    assert ask(db, f"FROM {view}") == expected


def test_times_of_publication_count_until_24_hours_after_the_snapshot(db: DuckDBPyConnection) -> None:
    times = {"1": ago(1), "2": ago(-1), "3": ago(-1, -1)}
    media = [item("anna", media_id, at, caption="#sun") for media_id, at in times.items()]
    fill(db, {"accounts": [account("anna")], "media": media})
    assert ask(db, "SELECT posts, last_used_at FROM hashtags") == [(3, ago(-1))]
    assert ask(db, "SELECT posts, posts_7d, last_post_at FROM posting_cadence") == [(2, 2, ago(-1))]
    assert ask(db, "SELECT day FROM engagement_by_day") == [(TODAY - timedelta(1),), (TODAY + timedelta(1),)]


def test_a_hashtag_does_not_begin_within_a_word(db: DuckDBPyConnection) -> None:
    for caption, tags in (
        ("Tom&#39;s #one", ["one"]),
        ("a#b a_#c \u0301#d 1#e # #", []),
        ("(#one)#two_2 ##three\n#four", ["four", "one", "three", "two_2"]),
        ("\u2764\ufe0f#love 1\ufe0f\u20e3#first #\ufe0f\u20e31 #ok\ufe0f", ["first", "love", "ok"]),
        ("#\u00e9t\u00e9 #e\u0301te\u0301 #\u00c9T\u00c9", ["\u00e9t\u00e9"]),
    ):
        fill(db, {"accounts": [account("anna")], "media": [item("anna", "1", ago(1), caption=caption)]})
        assert ask(db, "SELECT hashtag, posts FROM hashtags") == [(tag, 1) for tag in tags]


def test_without_data_every_view_is_empty(db: DuckDBPyConnection) -> None:
    for _ in range(2):
        assert [row for name in VIEWS for row in ask(db, f"FROM {name}")] == []
        db.execute("DELETE FROM published")


def test_only_freshness_follows_the_clock() -> None:
    asking = [name for name, view in views().items() if "now()" in view.select or "current_" in view.select]
    assert asking == ["freshness"]


def test_a_surface_that_no_run_scans_does_not_make_media_older(db: DuckDBPyConnection) -> None:
    accounts = [account("anna", status="token_expired")]
    fill(db, {"accounts": accounts, "completed_scans": [scan("anna", "posts", ago(2))]})
    assert ask(db, "SELECT media_as_of FROM expired_accounts") == [(ago(2),)]
    fill(db, {"run_outcomes": [{"run_id": "first", "account_id": "anna", "surface": "stories", "outcome": "failed"}]})
    assert ask(db, "SELECT media_as_of FROM expired_accounts") == [(None,)]


def test_every_view_can_be_read_whatever_is_counted(rig: Rig) -> None:
    largest = {"id": "2", "timestamp": at(0).isoformat(), "like_count": 2**63 - 1, "comments_count": 2**63 - 1}
    twice = [{"id": "1", "like_count": likes} for likes in (5, 6)]
    rig.scan(CATALOGUE, 0, [warehouse.account()])
    rig.scan(POSTS, 0, [*twice, largest])
    rig.scan(POSTS, 5, [twice[0], largest | {"like_count": -(2**63), "comments_count": -(2**63)}])
    snapshot = rig.publish(hour=6)
    for (name,) in warehouse.ask(snapshot, "SELECT view_name FROM duckdb_views() WHERE NOT internal"):
        warehouse.ask(snapshot, f'FROM "{name}"')
    counted = "SELECT changes FROM item_events WHERE media_id = '1' AND event = 'counted' ORDER BY changed_at"
    assert [json.loads(changes)["like_count"] for (changes,) in warehouse.ask(snapshot, counted)] == [
        {"old": None, "new": 6}, {"old": 6, "new": 5},
    ]  # fmt: skip


def test_stories_are_live_expired_or_unknown(rig: Rig) -> None:
    live, missed, old = ({"id": name, "timestamp": at(-hours).isoformat()} for name, hours in
                         (("live", 1), ("missed", 1), ("old", 23)))  # fmt: skip
    rig.scan(CATALOGUE, 0, [warehouse.account()])
    rig.scan(STORIES, 0, [live, missed, old])
    rig.scan(STORIES, 2, [live])
    day = date(2026, 3, 1)
    assert warehouse.ask(rig.publish(hour=3), "SELECT * EXCLUDE (account_id) FROM stories_by_day ORDER BY day") == [
        ("anna", day - timedelta(days=1), 1, 0, 1, 0, 0), ("anna", day, 2, 1, 0, 0, 1),
    ]  # fmt: skip

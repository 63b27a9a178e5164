"""Every view, compared with rows computed in plain Python from the same tables."""

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise, zip_longest
from typing import Any

import duckdb
import pytest
from duckdb import DuckDBPyConnection

from connectors.warehouse.snapshot.publish import publish
from connectors.warehouse.storage.connection import Connection
from models.views import views
from tests.warehouse.expected_views import ANSWERS, Answer, World
from tests.warehouse.export_fixture import AGES, as_tables
from tests.warehouse.rig import emptied

VIEWS = {name: view for name, view in views().items() if not view.is_stored}

# Clocks in New York went forward four days before, so days computed with local time would be wrong.
NOW = datetime(2026, 3, 12, 3, 15, tzinfo=UTC)

Rows = dict[str, list[dict[str, Any]]]


def ago(days: float = 0, hours: float = 0) -> datetime:
    return NOW - timedelta(days=days, hours=hours)


def account(account_id: str, **more: object) -> dict[str, Any]:
    return {
        "account_id": account_id,
        "ig_username": f"name of {account_id}",
        "public_id": "p",
        "status": "active",
        "token_expired_since": None,
        "first_seen_at": ago(500),
        "last_seen_at": NOW,
        "removed_at": None,
    } | more


def item(account_id: str, surface: str, media_id: str, published_at: datetime | None, **more: object) -> dict[str, Any]:
    return {
        "account_id": account_id,
        "ig_username": f"name of {account_id}",
        "surface": surface,
        "media_id": media_id,
        "published_at": published_at,
        "caption": None,
        "like_count": None,
        "first_seen_at": published_at or ago(),
        "last_seen_at": NOW,
        "changed_at": ago(),
        "content_changed_at": ago(1),
        "removed_at": None,
        "removal": None,
    } | more


def count(media_id: str, observed_at: datetime, value: int | None, metric: str = "like_count") -> dict[str, Any]:
    return {
        "account_id": "anna",
        "surface": "posts",
        "media_id": media_id,
        "metric": metric,
        "value": value,
        "observed_at": observed_at,
    }


def scan(account_id: str, surface: str, complete_at: datetime, undecided: datetime | None = None) -> dict[str, Any]:
    return {
        "resource": "media",
        "account_id": account_id,
        "surface": surface,
        "complete_at": complete_at,
        "removals_undecided_since": undecided,
        "recent_at": None,
        "covered_from": None,
        "item_order": None,
        "full_share": 1.0,
    }


def gap(account_id: str, surface: str, since: datetime) -> dict[str, Any]:
    return {"account_id": account_id, "surface": surface, "since": since, "pages": 2, "reason": "interrupted"}


def world(**rows: list[dict[str, Any]]) -> Rows:
    names = ("accounts", "account_status_history", "media", "media_history", "media_metrics", "completed_scans",
             "run_outcomes", "gaps")  # fmt: skip
    signed = {"snapshot_at": NOW, "version": "1", "stale_after": 36 * 3600.0, "full_refresh_every": 7 * 86_400.0}
    return {"published": [signed]} | {name: rows.get(name, []) for name in names}


class Chance:
    """A synthetic snapshot: all times are whole hours before now, so values exactly at each limit occur."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.rows = world()
        for account_id in ("anna", "ben", "carl", "dora")[: self.draw.randint(0, 4)]:
            self.account(account_id)
        if self.draw.random() < 0.3:
            self.media("never listed", None)

    def moment(self) -> datetime:
        limits = [36, 7 * 24, 28 * 24, 90 * 24]
        far = self.draw.choice([72, 40 * 24, 200 * 24])
        return ago(hours=self.draw.choice([self.draw.randrange(far), self.draw.choice(limits)]))

    def account(self, account_id: str) -> None:
        since = self.draw.choice([None, self.moment()])
        self.rows["accounts"].append(
            account(
                account_id,
                status="token_expired" if since else "active",
                token_expired_since=since,
                removed_at=self.draw.choice([None, None, None, ago(3)]),
            )
        )
        self.statuses(account_id)
        for surface in ("posts", "stories"):
            for day in range(self.draw.randint(0, 3)):
                self.outcome(account_id, surface, ago(day, self.draw.randrange(20)))
            if self.draw.random() < 0.8:
                self.rows["completed_scans"].append(
                    scan(
                        account_id,
                        surface,
                        self.draw.choice([ago(), ago(0, 36), ago(0, 37), self.moment()]),
                        self.draw.choice([None, None, ago(2)]),
                    )
                    | self.recent(surface)
                )
            if self.draw.random() < 0.2:
                self.rows["gaps"].append(gap(account_id, surface, self.moment()))
        self.media(account_id, f"name of {account_id}")

    def statuses(self, account_id: str) -> None:
        times: list[datetime | None] = [ago(hours=hours) for hours in sorted(self.draw.sample(range(900), 4))]
        for until, since in pairwise([None, *times]):
            status = self.draw.choice(["active", "token_expired", "removed"])
            row = {"account_id": account_id, "ig_username": f"name of {account_id}", "status": status}
            self.rows["account_status_history"].append(row | {"valid_from": since, "valid_to": until})

    def captions(self, account_id: str, name: str | None, surface: str, media_id: str) -> str | None:
        """Add one to three versions of an item, and return the caption of the current one."""
        current = None
        times = sorted(self.draw.sample(range(900), self.draw.randint(1, 3)), reverse=True)
        for since, until in zip_longest(times, times[1:]):
            current = self.draw.choice([None, "", "a #Sun and #sun", "#sun #\u00e9t\u00e9_26 and more", "plain # text"])
            key = {"account_id": account_id, "ig_username": name, "surface": surface, "media_id": media_id}
            valid_to = None if until is None else ago(hours=until)
            version = {"valid_from": ago(hours=since), "valid_to": valid_to, "caption": current}
            self.rows["media_history"].append(key | version)
        return current

    def recent(self, surface: str) -> dict[str, Any]:
        """The rows of recent scans of posts."""
        if surface == "stories" or self.draw.random() < 0.5:
            return {}
        recent = {"recent_at": self.draw.choice([ago(), ago(0, 36), ago(0, 37)]), "covered_from": self.moment()}
        proved = {"item_order": "newest_first", "full_share": self.draw.choice([0.125, 1.0])}
        return proved | self.draw.choice([{}, recent])

    def outcome(self, account_id: str, surface: str, ended_at: datetime) -> None:
        self.rows["run_outcomes"].append(
            {
                "run_id": "r",
                "resource": "media",
                "account_id": account_id,
                "surface": surface,
                "outcome": self.draw.choice(["complete", "deferred"]),
                "error_code": self.draw.choice([None, "RATE_LIMITED"]),
                "resume_after": self.draw.choice([None, NOW]),
                "started_at": ended_at,
                "ended_at": ended_at,
            }
        )

    def media(self, account_id: str, name: str | None) -> None:
        draw = self.draw
        published: list[datetime | None] = [draw.choice([None, self.moment()]) for _ in range(draw.randint(0, 6))]
        if draw.random() < 0.6:
            # An account that posted regularly and then stopped, for a time near the limit of stale.
            gap, silent = (
                draw.choice([1, 24, 60, 72]),
                draw.choice([0, 6 * 24, 7 * 24, 3 * 60, 9 * 24]) + draw.randint(0, 1),
            )
            published += [ago(hours=silent + gap * n) for n in range(draw.randint(4, 30))]
        for surface in ("posts", "stories"):
            for number, moment in enumerate(published):
                self.item(account_id, name, surface, str(number), moment)

    def item(
        self, account_id: str, name: str | None, surface: str, media_id: str, published_at: datetime | None
    ) -> None:
        draw = self.draw
        moment = first = (published_at or self.moment()) + timedelta(hours=draw.choice([0, 1, 24, 30, 48]))
        likes = None
        for metric in draw.sample(["like_count", "comments_count", "save_count"], draw.randint(0, 3)):
            moment = first
            for _ in range(draw.randint(1, 5)):
                value = draw.choice([None, 0, 1, 2, 2, 3, 5, 8, 40])
                row = count(media_id, moment, value, metric) | {"account_id": account_id, "surface": surface}
                self.rows["media_metrics"].append(row)
                likes = value if metric == "like_count" else likes
                moment += timedelta(hours=draw.choice([1, 12, 23, 24, 144]))
        removal = draw.choice([None, None, "removed", "expired"]) if surface == "stories" else None
        removal = draw.choice([None, None, "removed"]) if surface == "posts" else removal
        self.rows["media"].append(
            item(
                account_id,
                surface,
                media_id,
                published_at,
                ig_username=name,
                caption=self.captions(account_id, name, surface, media_id),
                like_count=likes,
                first_seen_at=first,
                last_seen_at=moment + timedelta(hours=draw.choice([0, 1, 100, 1000])) if draw.random() < 0.9 else first,
                removed_at=NOW if removal else None,
                removal=removal,
            )
        )


@pytest.fixture(scope="module")
def snapshot(opened_rig: Connection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDBPyConnection]:
    """A published snapshot without a row, open for writing."""
    path = tmp_path_factory.mktemp("views") / "analytics.duckdb"
    publish(emptied(opened_rig).connection, path, at=NOW, version="1")
    path.chmod(0o644)
    with duckdb.connect(str(path)) as db:
        as_tables(db)
        db.execute("DELETE FROM published")
        yield db


def test_columns_of_views_have_types_that_polars_and_others_read(snapshot: DuckDBPyConnection) -> None:
    kinds = {kind for name in VIEWS for _, kind, *_ in snapshot.execute(f"DESCRIBE {name}").fetchall()}
    assert kinds <= {
        "VARCHAR", "BIGINT", "INTEGER", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP WITH TIME ZONE",
    }  # fmt: skip


ZONES = ("UTC", "America/New_York")


@contextmanager
def reader(snapshot: DuckDBPyConnection, zone: str) -> Iterator[DuckDBPyConnection]:
    """The same for one test, with the reader's time zone."""
    snapshot.execute(f"SET TimeZone = '{zone}'")
    snapshot.begin()
    read_at(snapshot, NOW)
    try:
        yield snapshot
    finally:
        snapshot.rollback()


@pytest.fixture(params=ZONES)
def db(snapshot: DuckDBPyConnection, request: pytest.FixtureRequest) -> Iterator[DuckDBPyConnection]:
    with reader(snapshot, request.param) as opened:
        yield opened


def read_at(db: DuckDBPyConnection, moment: datetime) -> None:
    """Set the reader's clock: this now() takes precedence over DuckDB's."""
    db.execute(f"CREATE OR REPLACE MACRO now() AS TIMESTAMPTZ '{moment.isoformat()}'")


def fill(db: DuckDBPyConnection, rows: World) -> None:
    for table, records in rows.items():
        db.execute(f"DELETE FROM {table}")
        if records:
            names = ", ".join(records[0])
            marks = ", ".join("(" + ", ".join("?" * len(record)) + ")" for record in records)
            db.execute(f"INSERT INTO {table} ({names}) VALUES {marks}", [v for r in records for v in r.values()])


def ask(db: DuckDBPyConnection, query: str) -> Answer:
    return alike(db.execute(query).fetchall())


def alike(answer: Answer) -> Answer:
    """Sort rows, convert times to UTC, and round floating point numbers."""

    def same(value: object) -> object:
        if isinstance(value, float):
            return round(value, 6)
        return value.astimezone(UTC) if isinstance(value, datetime) else value

    return sorted(
        (tuple(same(value) for value in row) for row in answer), key=lambda row: [str(value) for value in row]
    )


def select(view: str) -> str:
    return f"SELECT * EXCLUDE ({', '.join(AGES)}) FROM {view}" if view == "freshness" else f"FROM {view}"


def test_every_view_has_a_reference_implementation() -> None:
    assert ANSWERS.keys() == VIEWS.keys()


@pytest.mark.parametrize("seed", range(30))
def test_views_of_a_random_snapshot_equal_the_reference(snapshot: DuckDBPyConnection, seed: int) -> None:
    rows = Chance(seed).rows
    with reader(snapshot, ZONES[seed % 2]) as db:
        fill(db, rows)
        for view, answer in ANSWERS.items():
            assert ask(db, select(view)) == alike(answer(rows)), view


def test_inferred_columns_do_not_shadow_names_in_views(db: DuckDBPyConnection) -> None:
    # Inferred columns of media may have the same names as columns of views.
    words = {word for view in VIEWS.values() for word in re.findall(r"(?:AS |^    )(\w+)\b", view.select, re.MULTILINE)}
    for word in sorted(words - set(views()["media"].columns)):
        db.execute(f"ALTER TABLE media ADD COLUMN \"{word.lower()}\" VARCHAR DEFAULT 'of an item'")
    rows = Chance(1).rows
    fill(db, rows)
    for view, answer in ANSWERS.items():
        assert ask(db, select(view)) == alike(answer(rows)), view


def test_random_snapshots_cover_all_cases_of_the_views() -> None:
    """Assert that every view has rows, so that comparisons are not empty."""
    seen: dict[str, Answer] = {view: [] for view in ANSWERS}
    for seed in range(30):
        rows = Chance(seed).rows
        for view, answer in ANSWERS.items():
            seen[view] += answer(rows)
    assert {row[2] for row in seen["stale_accounts"]} == {
        "token_expired",
        "never_scanned",
        "not_scanned",
        "stopped_posting",
    }
    assert all(any(row[place] for row in seen["stories_by_day"]) for place in (4, 5, 6, 7))
    for view, rows_seen in seen.items():
        assert len(rows_seen) > 15, view
    for place in (9, 11, 12, 13):
        assert {row[place] is None for row in seen["post_growth"]} == {True, False}
    assert any(row[10] < 0 for row in seen["post_growth"])
    assert any(row[3] is not None and row[3] < 0 for row in seen["engagement_by_day"])
    assert any(row[-1] is None for row in seen["post_performance"])


def test_without_data_every_view_is_empty(db: DuckDBPyConnection) -> None:
    for rows in (world(), world() | {"published": []}):
        fill(db, rows)
        for name in VIEWS:
            assert ask(db, f"FROM {name}") == []


def test_only_freshness_follows_the_clock() -> None:
    asking = [name for name, view in views().items() if "now()" in view.select or "current_" in view.select]
    assert asking == ["freshness"]


def test_accounts_not_scanned_for_longer_than_the_setting_are_stale(db: DuckDBPyConnection) -> None:
    accounts = [
        account("fresh"),
        account("old"),
        account("new", first_seen_at=ago(0, 35)),
        account("never"),
        account("expired", status="token_expired"),
        account("removed", removed_at=ago(9)),
    ]
    scans = [scan("fresh", "posts", ago(0, 36)), scan("old", "posts", ago(0, 37)), scan("removed", "posts", ago(20))]
    scans.append(scan("expired", "posts", ago(20)))
    rows = world(accounts=accounts, completed_scans=scans)
    fill(db, rows)
    query = "SELECT account_id, is_stale, age_seconds FROM freshness"
    assert ask(db, query) == [
        ("expired", False, None),
        ("fresh", False, 36 * 3600),
        ("never", True, 500 * 86_400),
        ("new", False, 35 * 3600),
        ("old", True, 37 * 3600),
    ]
    assert ask(db, "SELECT max(age_seconds) FROM freshness") == [(500 * 86_400,)]
    assert ask(db, "SELECT account_id, reason FROM stale_accounts") == [
        ("expired", "token_expired"),
        ("never", "never_scanned"),
        ("old", "not_scanned"),
    ]
    # Only the setting determines the limit.
    db.execute("UPDATE published SET stale_after = 40 * 3600")
    assert ask(db, f"SELECT account_id FROM ({query}) WHERE is_stale") == [("never",)]
    assert ask(db, "SELECT account_id FROM stale_accounts") == [("expired",), ("never",)]
    # An old file is stale, even if its data was fresh when it was published.
    read_at(db, NOW + timedelta(days=7))
    assert ask(db, "SELECT count(*), count(*) FILTER (is_stale) FROM freshness") == [(5, 4)]
    assert ask(db, "SELECT count(*) FROM stale_accounts WHERE reason = 'not_scanned'") == [(2,)]

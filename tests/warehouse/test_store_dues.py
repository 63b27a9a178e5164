"""When feeds are due: a table of histories."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest

from connectors.warehouse.queries.progress import read_dues
from connectors.warehouse.storage import schema
from models.feeds import Partition, media
from models.selection import DAY, HOUR, Due, read_goals

NOW = datetime(2026, 3, 1, 2, 15, tzinfo=UTC)
# A row of a test has the columns that matter.
TABLES = Path(schema.__file__).with_name("0001.sql").read_text(encoding="utf-8").replace(" NOT NULL", "")


class History(NamedTuple):
    """A feed: when its scan closed, how many items were new then, and the last outcome."""

    closed_at: datetime | None = NOW
    new: int = 0
    outcome: str | None = None
    tried_at: datetime | None = None
    resume_after: datetime | None = None
    error_code: str | None = None
    status: str = "active"


@pytest.fixture
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as db:
        db.execute(TABLES)
        yield db


def find_due(db: duckdb.DuckDBPyConnection, surface: str, goals: str, history: History) -> Due:
    """Return when a feed with this history is due, or without a surface the catalogue."""

    def add(table: str, **row: object) -> None:
        marks = ", ".join("?" * len(row))
        db.execute(f"INSERT INTO core.{table} ({', '.join(row)}) VALUES ({marks})", [*row.values()])

    partition = media("anna", surface) if surface else Partition("accounts")
    feed = asdict(partition)
    if surface:
        add("accounts", account_id="anna", status=history.status, first_seen_at=NOW - 100 * DAY)
    if (at := history.closed_at) is not None:
        add("closed_scans", **feed, complete_at=NOW - DAY, recent_at=at)
        for _ in range(history.new):
            add("media", account_id="anna", surface=surface, published_at=at - DAY)
    if history.outcome is not None:
        wait = {"ended_at": history.tried_at, "resume_after": history.resume_after}
        add("run_outcomes", **feed, run_seq=2, outcome=history.outcome, error_code=history.error_code, **wait)
        add("run_outcomes", **feed, run_seq=1, outcome="failed", error_code="timeout", ended_at=NOW)
    return read_dues(db, read_goals(goals), scan_expired=False)[partition]


LATER = NOW + 2 * DAY

CASES: dict[str, tuple[str, str, History, timedelta, str]] = {
    "never scanned": ("posts", "7d", History(None), -100 * DAY, "first"),
    "a short goal": ("posts", "3h", History(new=60), 3 * HOUR, "goal"),
    "a goal of a day": ("posts", "1d", History(new=60), DAY, "goal"),
    "nothing new": ("posts", "7d", History(), 7 * DAY, "goal"),
    "a post in four months": ("posts", "30d", History(new=1), 15 * DAY, "rate"),
    "a post a week": ("posts", "7d", History(new=4), 1.4 * DAY, "rate"),
    "many posts": ("posts", "30d", History(new=60), DAY, "rate"),
    "stories": ("stories", "7d", History(new=1), 6 * HOUR, "goal"),
    "no stories": ("stories", "7d", History(), DAY, "quiet"),
    "the catalogue": ("", "7d", History(), DAY, "goal"),
    "done": ("posts", "7d", History(outcome="recent", tried_at=NOW), 7 * DAY, "goal"),
    "renewed": ("posts", "7d", History(outcome="skipped", tried_at=NOW), 7 * DAY, "goal"),
    "failed early": ("posts", "7d", History(outcome="failed", tried_at=LATER), 2 * DAY + HOUR, "retry"),
    "failed for days": ("posts", "1d", History(outcome="failed", tried_at=NOW + 7 * DAY), 7.25 * DAY, "retry"),
    "denied": ("posts", "7d", History(outcome="denied", tried_at=NOW), DAY, "retry"),
    "cooling down": ("posts", "7d", History(NOW, 0, "deferred", NOW, NOW + 3 * HOUR), 3 * HOUR, "retry"),
    "cooling down for a year": ("posts", "7d", History(NOW, 0, "deferred", NOW, NOW + 365 * DAY), DAY, "retry"),
    "left out by a limit": ("posts", "1d", History(NOW, 0, "deferred", LATER, None, "request_budget"), DAY, "goal"),
}


@pytest.mark.parametrize("case", CASES)
def test_when_a_feed_is_due(db: duckdb.DuckDBPyConnection, case: str) -> None:
    surface, goals, history, after, reason = CASES[case]
    assert find_due(db, surface, goals, history) == Due(NOW + after, reason)


def test_a_feed_with_an_expired_token_is_not_due_unless_a_setting_says_so(db: duckdb.DuckDBPyConnection) -> None:
    assert find_due(db, "posts", "7d", History(status="token_expired")) == Due(None, "token_expired")
    assert read_dues(db, read_goals("7d"), scan_expired=True)[media("anna", "posts")] == Due(NOW + 7 * DAY, "goal")

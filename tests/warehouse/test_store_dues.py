"""When feeds are due: a table of histories, and what holds for all rates and goals."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

import duckdb
import pytest

from connectors.warehouse.queries.progress import read_dues
from models.feeds import SURFACES, Partition, media
from models.selection import DAY, HOUR, Due, read_goals

NOW = datetime(2026, 3, 1, 2, 15, tzinfo=UTC)
TABLES = """
CREATE SCHEMA core;
CREATE TABLE core.accounts (account_id VARCHAR, status VARCHAR, first_seen_at TIMESTAMPTZ, removed_at TIMESTAMPTZ);
CREATE TABLE core.closed_scans (
    resource VARCHAR, account_id VARCHAR, surface VARCHAR, complete_at TIMESTAMPTZ, recent_at TIMESTAMPTZ
);
CREATE TABLE core.media (account_id VARCHAR, surface VARCHAR, published_at TIMESTAMPTZ, first_seen_at TIMESTAMPTZ);
CREATE TABLE core.run_outcomes (
    resource VARCHAR, account_id VARCHAR, surface VARCHAR, outcome VARCHAR, error_code VARCHAR, ended_at TIMESTAMPTZ,
    resume_after TIMESTAMPTZ, run_seq BIGINT
)
"""


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


def dues(db: duckdb.DuckDBPyConnection, surface: str, goals: str, *histories: History) -> Sequence[Due]:
    """Return when the feeds of accounts with these histories are due."""
    partitions = [media(str(n), surface) if surface else Partition("accounts") for n in range(len(histories))]
    for partition, one in zip(partitions, histories, strict=True):
        account_id = partition.account_id
        if account_id:
            db.execute("INSERT INTO core.accounts VALUES (?, ?, ?, NULL)", [account_id, one.status, NOW - 100 * DAY])
        feed = [partition.resource, account_id, surface]
        if one.closed_at is not None:
            db.execute("INSERT INTO core.closed_scans VALUES (?, ?, ?, ?, ?)", [*feed, NOW - DAY, one.closed_at])
            items = "INSERT INTO core.media SELECT ?, ?, ?, ? FROM range(?)"
            db.execute(items, [account_id, surface, one.closed_at - DAY, one.closed_at, one.new])
        if one.outcome is not None:
            ended = [one.outcome, one.error_code, one.tried_at, one.resume_after]
            db.execute("INSERT INTO core.run_outcomes VALUES (?, ?, ?, ?, ?, ?, ?, 2)", [*feed, *ended])
            before = "INSERT INTO core.run_outcomes VALUES (?, ?, ?, 'failed', 'timeout', ?, NULL, 1)"
            db.execute(before, [*feed, NOW])
    found = read_dues(db, read_goals(goals), scan_expired=False)
    return [found[partition] for partition in partitions]


LATER = NOW + 2 * DAY

CASES: dict[str, tuple[str, str, History, timedelta, str]] = {
    "never scanned": ("posts", "7d", History(None), -100 * DAY, "first"),
    "a short goal": ("posts", "3h", History(new=500), 3 * HOUR, "goal"),
    "nothing new": ("posts", "7d", History(), 7 * DAY, "goal"),
    "a post a week": ("posts", "7d", History(new=4), 1.4 * DAY, "rate"),
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
    assert dues(db, surface, goals, history) == [Due(NOW + after, reason)]


def test_a_feed_with_an_expired_token_is_not_due_unless_a_setting_says_so(db: duckdb.DuckDBPyConnection) -> None:
    assert dues(db, "posts", "7d", History(status="token_expired")) == [Due(None, "token_expired")]
    assert read_dues(db, read_goals("7d"), scan_expired=True)[media("0", "posts")] == Due(NOW + 7 * DAY, "goal")


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("goal", ["1h", "5h", "1d", "2d", "7d", "30d", "366d"])
def test_an_interval_is_bounded_and_falls_with_the_rate(db: duckdb.DuckDBPyConnection, surface: str, goal: str) -> None:
    found = dues(db, surface, goal, *(History(new=new) for new in range(70)))
    intervals = [due.at - NOW for due in found if due.at is not None]
    longest, busy = read_goals(goal)[surface], intervals
    if surface == "stories":
        assert intervals[0] == DAY
        busy = intervals[1:]
    assert all(min(DAY, longest) <= interval <= longest for interval in busy)
    assert all(busier <= interval <= 2 * busier for interval, busier in pairwise(busy))

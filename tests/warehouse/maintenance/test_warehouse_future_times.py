"""A clock that is behind is refused; times that one that was ahead stored are moved back, in their order.

No cooldown gets shorter by that.
"""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta

import pytest

from connectors.warehouse.maintenance.future_times import (
    Ahead,
    check_clock,
    repair,
    repair_future_times,
)
from connectors.warehouse.merge.run_counts import MergeStats
from connectors.warehouse.storage.errors import WarehouseUnusable
from models.runs import RunState
from tests.warehouse.rig import POSTS, T0, Rig, at, minute, refusal

YEAR = 365 * 24.0


def test_future_times_are_moved_after_trusted_ones_keeping_order_and_distances(rig: Rig) -> None:
    rig.scan(POSTS, "a", 0, [{"id": "1", "like_count": 1}])
    rig.scan(POSTS, "b", YEAR, [{"id": "1", "like_count": 2}])
    rig.scan(POSTS, "c", YEAR + 5, [{"id": "1", "like_count": 3}])
    trusted = minute(0)
    moved = rig.call(repair, now=at(24))
    assert moved is not None
    assert moved.last == minute(YEAR + 5)
    after = trusted + timedelta(microseconds=1)
    assert rig.rows("SELECT value, observed_at FROM core.media_metrics ORDER BY 2") == [
        (1, trusted),
        (2, after),
        (3, after + timedelta(hours=5)),
    ]
    assert rig.call(repair, now=at(24)) is None


def test_times_too_far_apart_to_fit_keep_their_order(rig: Rig) -> None:
    rig.scan(POSTS, "a", 0, [{"id": "1", "like_count": 1}])
    for number in range(2, 6):
        rig.scan(POSTS, f"w{number}", number * YEAR, [{"id": "1", "like_count": number}])
    rig.call(repair, now=at(24))
    values = rig.rows("SELECT value, observed_at FROM core.media_metrics ORDER BY observed_at")
    assert [value for value, _ in values] == [1, 2, 3, 4, 5]
    assert len({when for _, when in values}) == 5
    assert values[-1][1] <= at(24)


def test_a_removal_missed_ahead_is_confirmed_an_hour_from_now_at_the_earliest(rig: Rig) -> None:
    rig.scan(POSTS, "a", 0, [{"id": "1"}, {"id": "2"}])
    rig.scan(POSTS, "b", YEAR, [])
    rig.call(repair, now=at(24))
    assert rig.rows("SELECT DISTINCT missing_since FROM ops.missing") == [(at(24),)]
    assert rig.scan(POSTS, "c", 24.5, []) == MergeStats()
    assert rig.scan(POSTS, "d", 25.1, []).removed == 2


def test_publication_times_from_the_api_are_not_moved(rig: Rig) -> None:
    rig.scan(POSTS, "a", 0, [{"id": "1", "timestamp": at(YEAR).isoformat()}])
    assert rig.call(repair, now=at(24)) is None
    assert rig.value("SELECT published_at FROM core.media") == at(YEAR)


def test_times_in_the_field_registry_are_moved_with_its_json_types(rig: Rig) -> None:
    rig.scan(POSTS, "a", 0, [{"id": "1"}])
    rig.scan(POSTS, "b", YEAR, [{"id": "1", "odd": 1}])
    rig.call(repair, now=at(24))
    first, kinds = rig.row("SELECT first_seen_at, json_types FROM core.fields WHERE path = '/odd'")
    assert first <= at(24)
    assert [datetime.fromisoformat(when) for when in json.loads(kinds).values()] == [first]


# Hours at which runs began, and the clock's hour now.
NIGHTLY = [24.0 * night for night in range(60)]
BEHIND = {
    "40 days, of 3 nights": (NIGHTLY[:3], 48.5 - 40 * 24),
    "40 days, of 60 nights": (NIGHTLY, 59 * 24 + 0.5 - 40 * 24),
    "two days, of 60 nights": (NIGHTLY, 57 * 24 + 0.5),
    "an hour, of runs minutes ago": ([0, 0.1, 0.2], -0.7),
}
NOT_BEHIND = {
    "the first run was a year ahead": ([YEAR], 24),
    "one run of many was a year ahead": ([*NIGHTLY[:5], YEAR], 5 * 24),
    "two of five runs were a year ahead": ([0, 24, 48, YEAR + 72, YEAR + 96], 5 * 24),
    "NTP set the clock back by ten minutes": ([0, 0.05, 0.1], -0.05),
    "the clock is right": (NIGHTLY, 60 * 24),
}


def _check(rig: Rig, hours: Sequence[float], now: float) -> Ahead | None:
    for number, hour in enumerate(hours):
        rig.run(f"r{number}", hour, published=False)
        rig.do(f"UPDATE core.runs SET ended_at = started_at + INTERVAL 3 MINUTES WHERE run_id = 'r{number}'")
    return rig.call(lambda connection: check_clock(connection.db, at(now)))


@pytest.mark.parametrize(("hours", "now"), BEHIND.values(), ids=BEHIND)
def test_a_clock_behind_most_runs_is_refused(rig: Rig, hours: Sequence[float], now: float) -> None:
    message = refusal(lambda: _check(rig, hours, now))
    assert f"{at(now):%Y-%m-%d %H:%M}" in message
    assert f"{at(max(hours)):%Y-%m-%d %H:%M}"[:-1] in message
    assert "Fix: set this machine's clock" in message


@pytest.mark.parametrize(("hours", "now"), NOT_BEHIND.values(), ids=NOT_BEHIND)
def test_a_clock_that_was_ahead_or_stepped_is_not_refused(rig: Rig, hours: Sequence[float], now: float) -> None:
    assert (now < max(hours)) is bool(_check(rig, hours, now))


def test_failed_runs_do_not_show_that_the_clock_is_behind(rig: Rig) -> None:
    # With a wrong clock, no certificate is valid.
    for number in range(4):
        rig.run(f"r{number}", YEAR + number, state=RunState.FAILED)
        rig.call(repair_future_times, f"r{number}", now=at(YEAR + number))
    assert rig.call(lambda connection: check_clock(connection.db, at(0)))


@pytest.mark.parametrize(("posts", "is_behind"), [(3, True), (2, False)])
def test_posts_published_after_now_show_that_the_clock_of_the_second_run_is_behind(
    rig: Rig, posts: int, *, is_behind: bool
) -> None:
    rig.scan(POSTS, "a", 0, [{"id": str(n), "timestamp": T0.isoformat()} for n in range(posts)])
    with pytest.raises(WarehouseUnusable) if is_behind else nullcontext():
        _check(rig, [0], -YEAR)

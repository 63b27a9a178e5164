"""The remaining time of a run, estimated from the last full scans, the current rate and the cooldowns."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from connectors.source.endpoints import ApiRequest, Response
from flows.cli.output.progress import line
from flows.engine.pipeline import run_sync
from flows.engine.run_context import Counters
from flows.reporting.pace import Pace, items_left, outlook
from tests.clocks import START, VirtualClock
from tests.flows.fake_api import FakeApi, Refusal, account_of, open_run_resources, request

pytestmark = pytest.mark.anyio


def test_no_estimate_before_the_catalogue_is_complete_or_enough_scans_have_ended() -> None:
    counters = Counters(items_left=30)
    assert items_left(counters) is None
    counters.catalogue_complete = True
    assert items_left(counters) == 30
    counters.unknown = 21
    assert items_left(counters) is None
    counters.ended, counters.ended_items = 2, 8
    assert items_left(counters) is None
    counters.unknown = 20
    assert items_left(counters) == 30 + 20 * 4


async def test_the_estimate_follows_the_last_minute() -> None:
    clock, counters = VirtualClock(), Counters(catalogue_complete=True, items_left=1000)
    pace = Pace(clock.monotonic)
    left: list[float | None] = []
    for items, seconds in ((0, 5), (100, 5), (200, 1), *((items, 1) for items in range(201, 270))):
        counters.items = items
        left.append(pace.seconds_left(counters))
        await clock.sleep(seconds)
    assert left[:3] == [None, None, 50.0], "too soon for a rate"
    # One item per second from now on: after a minute, the fast first ten seconds have no effect.
    assert left[-1] == pytest.approx(1000.0)


def test_cooldowns_and_time_left_in_words() -> None:
    counters = Counters(accounts=8, catalogue_complete=True)
    assert list(outlook(counters, START, None)) == []
    assert list(outlook(counters, START, 250.4)) == ["about 4 min 10 s left"]
    assert list(outlook(counters, START, 3)) == ["less than 10 s left"]
    counters.cooldowns = {"over": START, "a": START + timedelta(minutes=5)}
    assert list(outlook(counters, START, None)) == ["1 cooldown until 02:20:00 UTC"]
    counters.cooldowns["b"] = START + timedelta(days=1)
    words = ["2 cooldowns, the last until 2026-03-02 02:15:00 UTC", "about 20 s left"]
    assert list(outlook(counters, START, 20)) == words
    counters.waiting = 1
    assert list(outlook(counters, START, 20))[1] == "about 5 min left", "a scan that waits is not over before its wait"
    assert line(counters, 1, words).endswith(f" · 1 s · {words[0]} · {words[1]}")


async def _watched(folder: Path, service: FakeApi, look: Callable[[Counters], None]) -> Counters:
    counters = Counters()

    class Watched(FakeApi):
        async def send(self, request: ApiRequest) -> Response:
            look(counters)
            return await service.send(request)

    async with open_run_resources(folder, Watched()) as resources:
        await run_sync(request(folder), resources, counters=counters)
    return counters


async def test_the_second_run_estimates_items_from_the_first(tmp_path: Path) -> None:
    left: list[float | None] = []
    first = await _watched(tmp_path, FakeApi(accounts=3, posts=7), lambda _: None)
    assert (first.items_left, first.unknown, first.ended, first.ended_items) == (0, 0, 6, 3 * 7)
    second = await _watched(tmp_path, FakeApi(accounts=3, posts=7), lambda counters: left.append(items_left(counters)))
    assert max(each for each in left if each is not None) > 10
    assert min(each for each in left if each is not None) < 10
    assert (second.items_left, second.unknown) == (0, 0)


async def test_failed_deferred_and_shorter_scans_leave_no_expected_items(tmp_path: Path) -> None:
    await _watched(tmp_path, FakeApi(accounts=3, posts=7), lambda _: None)

    def failure(request: ApiRequest) -> Refusal | None:
        return {1: Refusal(403, "api_forbidden"), 2: Refusal(429, "rate_limited", 9000)}.get(account_of(request) or 0)

    counters = await _watched(tmp_path, FakeApi(accounts=4, posts=3, failure=failure), lambda _: None)
    assert (counters.items_left, counters.unknown) == (0, 0)
    [cooldown] = outlook(counters, START, None)
    assert cooldown.startswith("1 cooldown until 04:45:")

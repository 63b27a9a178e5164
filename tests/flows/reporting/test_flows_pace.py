"""The remaining time of a run, estimated from the accounts that are left, the current rate and the cooldowns."""

from datetime import timedelta

import pytest

from flows.cli.output.run import Pace, describe
from flows.reporting.progress import Progress
from tests.clocks import START, VirtualClock

pytestmark = pytest.mark.anyio


async def test_the_estimate_follows_the_last_minute_of_a_complete_catalogue() -> None:
    clock, progress = VirtualClock(), Progress(accounts=1000)
    pace = Pace(clock)
    left: list[float | None] = []
    for done, seconds in ((0, 5), (100, 5), (200, 1), *((done, 1) for done in range(201, 270))):
        progress.accounts_done = done
        left.append(pace.seconds_left(progress))
        await clock.sleep(seconds)
        progress.catalogue_complete = done >= 100
    assert left[:3] == [None, None, 40.0], "too soon for a rate"
    # One account per second from now on: after a minute, the fast first ten seconds have no effect.
    assert left[-1] == pytest.approx(1000.0 - 269, abs=1)


def test_cooldowns_and_time_left_in_words() -> None:
    def outlook(progress: Progress, seconds_left: float | None) -> list[str]:
        """Return the parts between the accounts and the pages."""
        parts = [*describe(progress, seconds_left, START)]
        return parts[2 : parts.index("0 pages")]

    progress = Progress(accounts=8, catalogue_complete=True)
    assert outlook(progress, None) == []
    assert outlook(progress, 250.4) == ["about 4 min 10 s left"]
    assert outlook(progress, 3) == ["less than 10 s left"]
    progress.cooldowns = {"over": START, "a": START + timedelta(minutes=5)}
    assert outlook(progress, None) == ["1 cooldown until 2026-03-01 02:20:00 UTC"]
    progress.cooldowns["b"] = START + timedelta(days=1)
    assert outlook(progress, 20) == ["2 cooldowns, the last until 2026-03-02 02:15:00 UTC", "about 20 s left"]
    progress.waiting = 1
    assert outlook(progress, 20)[1] == "about 5 min left", "a scan that waits is not over before its wait"
    progress = Progress(catalogue_complete=True, allowed=59.6)
    assert outlook(progress, 3000) == ["about 50 min left", "the service allows about 60 requests/s; pace kept"]


def test_the_line_names_the_phase() -> None:
    progress = Progress(accounts=1200, accounts_done=3, pages=5, items=40)

    def line() -> str:
        return " · ".join(describe(progress, None, START))

    assert line() == "list · 3 of 1,200+ accounts · 5 pages · 40 records"
    progress.catalogue_complete, progress.waiting, progress.retries = True, 2, 7
    assert line() == "scan · 3 of 1,200 accounts · 5 pages · 40 records · 2 waiting · 7 retried"
    progress.accounts_done, progress.waiting, progress.retries, progress.ending = 1200, 0, 0, "publish"
    assert line() == "publish · 5 pages · 40 records", "nothing is left to estimate"

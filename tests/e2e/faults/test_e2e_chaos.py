"""Killed at random moments, hundreds of times: the warehouse opens, and the result is that of an uninterrupted run."""

import random
import signal
import time
from pathlib import Path

import pytest

from tests.api.server import Api
from tests.harness.against_api import assert_matches_api
from tests.operator import TIMEOUT, Operator, killed_on_exit, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.long]

STORIES = 24
KILLS = 10
# During the start, and during the merge and the publish after the last request, kills are timed: there are no requests
# to count.
MOST_SECONDS = 1.6
MOST_REQUESTS = 90


def _landed(operator: Operator) -> set[str]:
    if not operator.warehouse.exists():
        return set()
    return {str(frame.correlation_id) for frame in operator.landed() if frame.page}


def _kill_somewhere(operator: Operator, service: Api, chance: random.Random, *options: str) -> None:
    by_time = chance.random() < 0.5
    with killed_on_exit(operator.start("sync", *options)) as process:
        if by_time:
            time.sleep(chance.uniform(0, MOST_SECONDS))
        else:
            wanted = len(service.requests) + chance.randrange(1, MOST_REQUESTS)
            wait_until(lambda: len(service.requests) >= wanted or process.poll() is not None, "the run to get there")
        process.send_signal(signal.SIGKILL if chance.random() < 0.8 else signal.SIGTERM)
        process.communicate(timeout=TIMEOUT)


@pytest.mark.parametrize("seed", range(STORIES))
def test_runs_killed_at_random_moments_reach_the_same_result(seed: int, operator: Operator, service: Api) -> None:
    chance = random.Random(seed)
    operator.env["GRAMHOUSE_PAGE_SIZE"] = "5"
    for day in range(2):
        service.day = day
        for _ in range(KILLS // 2):
            landed = _landed(operator)
            heard = {e.correlation_id: e for e in service.requests}
            known = {(e.account_id, e.surface, e.cursor) for trace, e in heard.items() if trace in landed}
            service.requests.clear()
            _kill_somewhere(operator, service, chance)
            asked = {(e.account_id, e.surface, e.cursor) for e in service.requests}
            assert not known & asked
        assert operator.sync()["state"] == "complete"
        # Items that an earlier day's scan has passed are seen by another scan.
        operator.sync()
        assert_matches_api(operator.ask, service)
        service.requests.clear()
    assert not list(Path(operator.folder).glob("*.next*"))

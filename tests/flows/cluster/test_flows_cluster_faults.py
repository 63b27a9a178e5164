"""A shared store that fails, answers late and lists late, and workers that are lost: it ends as one process does."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from connectors.source.endpoints import ApiRequest
from connectors.store.object_store import ObjectStore
from connectors.store.repeating import RepeatingStore
from flows.cluster.batch_log import Entry, decode
from flows.engine.pipeline import run_sync
from flows.reporting.run_report import RunReport
from models.runs import RunState
from tests.flows.cluster.fake_cluster import DyingStore, FakeCluster, open_cluster_resources
from tests.flows.fake_api import FakeApi, Refusal, open_run_resources, request, rows
from tests.store.memory import FlakyStore, MemoryStore

pytestmark = pytest.mark.anyio

ACCOUNTS, POSTS = 9, 9
# Landings of an entry, and requests in flight on a worker.
PAGES, IN_FLIGHT = 3, 4

MEDIA = "SELECT account_id, surface, media_id, caption FROM core.media ORDER BY ALL"
OUTCOMES = "SELECT account_id, surface, outcome, pages, items FROM core.run_outcomes ORDER BY ALL"

Found = tuple[RunReport, list[Any], list[Any]]

LOGS = "SELECT run_sequence, batch, is_closed FROM ops.batch_logs ORDER BY ALL"


@dataclass
class Limits:
    """Answers some requests with a cooldown or a failure of the service, and notes what was asked within a cooldown.

    Only a worker that is lost before it could write the cooldown down is excused.
    """

    service: FakeApi
    chance: Random
    store: MemoryStore
    lost: Callable[[], int]
    lost_before: dict[str, int] = field(default_factory=dict)
    until: dict[str, float] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    pages: list[ApiRequest] = field(default_factory=list)
    waits: int = 0

    def __call__(self, request: ApiRequest) -> Refusal | None:
        now, scope = self.service.clock.passed, request.scope
        if now < self.until.get(scope, 0.0) - 0.001 and not self._is_excused(scope):
            self.broken.append(f"{scope} was asked {self.until[scope] - now} s too early")
        if scope not in self.until and self.chance.random() < 1 / 6:
            wait = self.chance.randrange(5, 60)
            self.until[scope] = now + wait
            self.lost_before[scope] = self.lost()
            self.waits += 1
            return Refusal(429, "rate_limited", wait)
        if self.chance.random() < 1 / 40:
            return Refusal(503, "api_account_resolution_unavailable")
        self.pages.append(request)
        return None

    def _is_excused(self, scope: str) -> bool:
        logs = [decode(data) for key, data in self.store.objects.items() if key.count("/") == 3 and key[-1].isdigit()]
        written = {commit.cooldown.scope for entry in logs for commit in entry.commits if commit.cooldown}
        return scope not in written and self.lost() > self.lost_before[scope]

    @property
    def asked_again(self) -> int:
        """Pages that were answered more than once."""
        return len(self.pages) - len(set(self.pages))


def has_no_cooldown(entry: Entry) -> bool:
    return not any(commit.cooldown for commit in entry.commits)


def views(store: MemoryStore, service: FakeApi, chance: Random, *, deaths: bool) -> Callable[..., ObjectStore]:
    """Give each attempt a view of the store that fails by itself; some workers are lost, none more than twice."""

    def store_of(key: str, _: object) -> ObjectStore:
        attempt = int(key.rpartition("-")[2])
        dies = deaths and attempt < 3 and chance.random() < (0.8, 0.4)[attempt - 1]
        entries = chance.randrange(4) if dies else 1_000_000
        view = DyingStore(
            shared=store, entries=entries, after=chance.random() < 0.5, counts=has_no_cooldown, chance=chance
        )
        return RepeatingStore(view, clock=service.clock)

    return store_of


async def in_one_process(folder: Path) -> tuple[list[Any], list[Any]]:
    folder.mkdir()  # noqa: ASYNC240
    async with open_run_resources(folder, FakeApi(ACCOUNTS, POSTS)) as resources:
        await run_sync(request(folder), resources)
        return await rows(resources, MEDIA), await rows(resources, OUTCOMES)


@pytest.mark.parametrize("seed", range(4))
async def test_a_store_that_fails_and_workers_that_are_lost_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("flows.cluster.worker._PAGES", PAGES)
    chance = Random(seed)
    service = FakeApi(ACCOUNTS, POSTS)
    store = FlakyStore(chance=chance)
    cluster = FakeCluster(
        service, RepeatingStore(store, clock=service.clock), views(store, service, chance, deaths=True)
    )
    service.failure = limits = Limits(service, chance, store, cluster.lost)
    async with open_cluster_resources(tmp_path, service, cluster) as resources:
        report = await run_sync(request(tmp_path), resources)
        found = await rows(resources, MEDIA), await rows(resources, OUTCOMES)
    assert report.state is RunState.COMPLETE
    assert found == await in_one_process(tmp_path / "alone")
    assert limits.waits
    assert limits.broken == []
    assert limits.asked_again <= cluster.lost() * (PAGES + IN_FLIGHT)
    assert store.objects.keys() >= {"gramhouse.json", "runs/00000001/run", "runs/00000001/end"}


@pytest.mark.parametrize("seed", range(3))
async def test_a_run_that_dies_while_the_store_fails_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("flows.cluster.worker._PAGES", PAGES)
    chance = Random(f"taken over {seed}")
    service, store = FakeApi(ACCOUNTS, POSTS), FlakyStore(chance=chance)
    dies_at = chance.randrange(2, 60)
    run: asyncio.Task[Found] | None = None

    async def synced() -> Found:
        cluster = FakeCluster(
            service, RepeatingStore(store, clock=service.clock), views(store, service, chance, deaths=False)
        )
        try:
            async with open_cluster_resources(tmp_path, service, cluster) as resources:
                report = await run_sync(request(tmp_path), resources)
                return report, await rows(resources, MEDIA), await rows(resources, LOGS)
        finally:
            # Its workers go on for as long as the store lets them.
            await asyncio.gather(*cluster.tasks, return_exceptions=True)

    def failure(_: ApiRequest) -> None:
        nonlocal dies_at
        # Requests that are sent together are counted together.
        if run is not None and len(service.requests) >= dies_at:
            dies_at = sys.maxsize
            run.cancel()

    service.failure = failure
    run = asyncio.create_task(synced())
    with pytest.raises(asyncio.CancelledError):
        await run
    service.failure = lambda _: None
    report, found, logs = await synced()
    assert report.state is RunState.COMPLETE
    assert found == (await in_one_process(tmp_path / "alone"))[0]
    assert logs[0] == (1, 0, True)

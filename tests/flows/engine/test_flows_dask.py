"""Runs on a fake cluster whose workers die: every account is scanned, and nothing is requested in a cooldown."""

import asyncio
import pickle
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from distributed import KilledWorker
from distributed.client import AllExit

from connectors.sandbox.http.replies import PageRequest, Reply
from connectors.source.request_rate import RequestRate
from flows.config.errors import ClusterLost, SettingsError
from flows.config.settings import load
from flows.engine.dask import cluster, scans
from flows.engine.dask import task as dask_task
from flows.engine.dask.task import Scanned, Task
from flows.pipeline import run_sync
from flows.reporting.run_report import RunReport
from models.runs import OutcomeKind, RunState
from tests.api.asked import Asked
from tests.api.faults import Action, refuse
from tests.api.listed import ListedApi, uuid
from tests.clocks import START, VirtualClock
from tests.flows.engine.test_flows_request_rate import Bucket
from tests.flows.fake_dask import FakeClient, Fate, in_tasks
from tests.runs import open_run_resources, request, rows

pytestmark = pytest.mark.anyio

LIMITED = refuse("rate_limited", retry_after=30)


async def _run(
    folder: Path,
    service: ListedApi,
    fate: Fate | None = None,
    **changes: Any,  # noqa: ANN401 - fields of RunRequest
) -> tuple[RunReport, FakeClient, list[tuple[Any, ...]]]:
    async with open_run_resources(folder, service) as resources:
        clock = Late(service.clock)
        elsewhere = in_tasks(resources, clock=clock) if fate is None else in_tasks(resources, fate, clock)
        async with elsewhere as (there, client):
            report = await run_sync(replace(request(folder), **changes), there)
        outcomes = "SELECT account_id, surface, outcome, error_code, detail FROM core.run_outcomes WHERE surface <> ''"
        return report, client, await rows(resources, outcomes)


class Late(VirtualClock):
    """The clock of a worker: seven hours behind, and its monotonic time began elsewhere."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(START - timedelta(hours=7))
        self._clock = clock

    def monotonic(self) -> float:
        return self._clock.monotonic() + 1e6

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


def _accounts(task: Task) -> set[int]:
    return {int(account.budget.scope[-3:]) for account in task.accounts}


async def test_times_are_those_of_the_run_and_no_task_has_the_key(tmp_path: Path) -> None:
    service = ListedApi(accounts=4, posts=9)
    report, client, _ = await _run(tmp_path, service)
    assert (report.state, report.media.added) == (RunState.COMPLETE, 4 * 9)
    assert report.requests == len(service.requests)
    assert not any(b"sandbox-key" in pickle.dumps(task) for task in client.tasks)
    async with open_run_resources(tmp_path, service) as resources:
        [times] = await rows(resources, "SELECT min(started_at), max(ended_at) FROM core.run_outcomes")
    assert START <= times[0] <= times[1] <= service.clock.now()


@pytest.mark.parametrize("fixed", [None, 8.0])
async def test_tasks_share_the_rate_of_the_run_and_return_what_they_were_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fixed: float | None
) -> None:
    monkeypatch.setattr(dask_task, "MOST_BYTES", 1)
    clock, gateway = VirtualClock(), Bucket(4, 6)
    refused = refuse("rate_limiter_unavailable", retry_after=2)
    limit = lambda _: None if gateway(clock.passed) else refused  # noqa: E731
    service = ListedApi(accounts=20, posts=5, fault=limit, clock=clock)
    async with (
        open_run_resources(tmp_path, service, rate=RequestRate(fixed)) as resources,
        in_tasks(resources) as (there, client),
    ):
        report = await run_sync(request(tmp_path), there)
    assert report.state is RunState.COMPLETE
    assert {task.rate.fixed for task in client.tasks} == {fixed and fixed / 2}
    # Later tasks know what earlier ones were refused.
    assert max(task.rate.limited_at for task in client.tasks) > client.tasks[0].rate.limited_at


async def test_workers_that_join_share_the_rate_of_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_task, "MOST_BYTES", 1)
    monkeypatch.setattr(scans, "_CHECK_EVERY", 0.0)
    client: FakeClient

    def fate(_: Task, result: bytes) -> bytes:
        client.threads = 8
        return result

    async with (
        open_run_resources(tmp_path, ListedApi(accounts=20, posts=5), rate=RequestRate(8.0)) as resources,
        in_tasks(resources, fate) as (there, client),
    ):
        assert (await run_sync(request(tmp_path), there)).state is RunState.COMPLETE
    assert {task.rate.fixed for task in client.tasks} == {4.0, 1.0}


async def test_a_scheduler_with_tls_needs_certificates() -> None:
    with pytest.raises(SettingsError, match="certificates of DASK_DISTRIBUTED__COMM__TLS"):
        await cluster.count_workers(load(engine="dask", scheduler="tls://127.0.0.1:9"))


async def test_a_task_of_a_worker_that_dies_is_repeated_and_nothing_is_requested_in_a_cooldown(tmp_path: Path) -> None:
    sent: list[tuple[int | None, float]] = []

    def failure(request: Asked) -> Action | None:
        sent.append((request.number, service.clock.passed))
        limited = request.is_posts(2) and not any(account == 2 for account, _ in sent[:-1])
        return LIMITED if limited else None

    service = ListedApi(accounts=4, posts=3, fault=failure)
    died: list[set[int]] = []

    def fate(task: Task, result: bytes) -> bytes | None:
        if 2 in _accounts(task) and len(died) < 2:
            died.append(_accounts(task))
            return None
        return result

    report, _, _ = await _run(tmp_path, service, fate, surfaces=("posts",))
    # Twice: the second time it is on its own.
    assert died[1] == {2}
    assert (report.state, report.media.added) == (RunState.COMPLETE, 4 * 3)
    first, again, *_ = [at for account, at in sent if account == 2]
    assert again - first >= 30


async def test_an_account_whose_task_kills_workers_fails_alone(tmp_path: Path) -> None:
    error = KilledWorker("task", None, 3)  # type: ignore[arg-type]

    def fate(task: Task, result: bytes) -> bytes:
        if 2 in _accounts(task):
            raise error
        return result

    report, _, outcomes = await _run(tmp_path, ListedApi(accounts=4), fate)
    lost = {outcome[:4] for outcome in outcomes if outcome[2] != "complete"}
    assert lost == {(uuid(2), surface, "failed", "worker_lost") for surface in ("posts", "stories")}
    assert report.outcomes.kinds == {OutcomeKind.COMPLETE: 7, OutcomeKind.FAILED: 2}


@pytest.mark.parametrize(
    "result",
    [b"no result", *(pytest.param(one, marks=pytest.mark.long) for one in (b"", pickle.dumps("another value")))],
)
async def test_an_account_whose_result_cannot_be_read_fails_alone(tmp_path: Path, result: bytes) -> None:
    report, _, _ = await _run(
        tmp_path, ListedApi(accounts=4), lambda task, own: result if 2 in _accounts(task) else own
    )
    assert report.outcomes.kinds == {OutcomeKind.COMPLETE: 7, OutcomeKind.FAILED: 2}


@pytest.mark.parametrize("lost", [pytest.param(0, marks=pytest.mark.long), 1])
async def test_tasks_share_the_requests_of_a_limited_run(tmp_path: Path, lost: int) -> None:
    results: list[bytes] = []

    def fate(_: Task, result: bytes) -> bytes | None:
        results.append(result)
        return None if len(results) <= lost else result

    service = ListedApi(accounts=8, posts=9)
    report, _, _ = await _run(tmp_path, service, fate, max_requests=40)
    assert report.state is RunState.PARTIAL
    assert len(service.requests) <= report.requests <= 40
    assert len(service.requests) == 40 or lost
    assert report.outcomes[OutcomeKind.DEFERRED] > 0
    assert report.outcomes.total == 1 + 2 * 8


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ConnectionRefusedError("no scheduler"), ClusterLost),
        (SettingsError("the worker tcp://10.0.0.1 has another key"), SettingsError),
    ],
)
async def test_a_lost_scheduler_or_a_worker_with_other_settings_ends_the_run(
    tmp_path: Path, error: Exception, raised: type[Exception]
) -> None:
    def fate(task: Task, result: bytes) -> bytes:
        if 2 in _accounts(task):
            raise error
        return result

    with pytest.raises(raised):
        await _run(tmp_path, ListedApi(accounts=4), fate)
    again = ListedApi(accounts=4)
    report, _, _ = await _run(tmp_path, again)
    assert report.state is RunState.COMPLETE
    assert report.media.added + report.resumed[0].media.added == 4 * 3


async def test_an_error_that_stops_the_run_ends_all_tasks(tmp_path: Path) -> None:
    began = asyncio.Event()

    class Hanging(ListedApi):
        async def answer(self, request: PageRequest) -> Reply:
            self.clock.passed += 0.1
            if request.resource.position == 4:
                began.set()
            elif request.account is not None:
                await began.wait()
            return await super().answer(request)

    def failure(request: Asked) -> Action | None:
        return refuse("api_unauthorized") if request.number == 1 else None

    service = Hanging(accounts=4, posts=2_000, fault=failure)
    report, client, _ = await _run(tmp_path, service)
    assert client.is_stopped
    assert report.state is RunState.FAILED
    assert report.outcomes.total == 1 + 2 * 4
    # Of 4,000: how many follow the error depends on how busy the machine is.
    assert len(service.requests) < 1_000


async def test_a_task_ends_after_16_mb_or_a_minute_and_another_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[Scanned] = []

    def fate(_: Task, result: bytes) -> bytes:
        scanned = Scanned.unpack(result)
        assert isinstance(scanned, Scanned)
        results.append(scanned)
        return result

    service = ListedApi(accounts=2, posts=200)
    service.seconds_each = 1.0
    report, client, _ = await _run(tmp_path, service, fate)
    assert (report.state, report.media.added, report.requests) == (RunState.COMPLETE, 2 * 200, 203)
    # Each request takes a second, and the one in flight ends.
    assert len(client.tasks) >= 203 / 60
    assert {scanned.progress.requests <= 62 for scanned in results} == {True}

    monkeypatch.setattr(dask_task, "MOST_BYTES", 2_000)
    results.clear()
    await _run(tmp_path, service, fate)
    bodies = [sum(len(one.page.body) for one in scanned.commits if one.page) for scanned in results]
    assert 2_000 <= max(bodies) < 3_000


async def test_only_an_error_of_dask_itself_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    for error in (AllExit(), ValueError("ours")):
        cluster._report_unless(AllExit, loop, {"message": "never retrieved", "exception": error})  # noqa: SLF001
    assert [record.exc_info and record.exc_info[0] for record in caplog.records] == [ValueError]

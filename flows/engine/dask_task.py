"""A bounded task on a Dask worker: scans accounts, and returns what the run lands and what is left to scan.

It ends with 16 MB of pages, or after a minute. No clock of a worker is read: a task continues the clock of the run by
the seconds since it began.
"""

import asyncio
import hashlib
import logging
import pickle
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import SystemRandom
from typing import Any

import pyarrow as pa

from connectors.source.base_url import normalized
from connectors.source.client import ApiClient
from connectors.source.errors import Failure
from connectors.source.retry import Send
from flows.config.errors import SettingsError
from flows.config.release import release
from flows.config.settings import Settings, load
from flows.engine.accounts import AccountScan, scan_account
from flows.engine.clock import SystemClock, new_id
from flows.engine.concurrency import Slots, fail_fast_group
from flows.engine.scan import ScanContext, ScanOptions
from flows.reporting.progress import Progress
from models.clock import Clock
from models.media_page import PagePaths
from models.page_commit import PageCommit
from models.page_items import post_reader

# The bounds of a task: bytes of pages, and seconds. It leaves sleeps of more than MOST_SLEEP seconds to the run.
MOST_BYTES = 16 * 1024 * 1024
MOST_SECONDS = 60.0
MOST_SLEEP = 1.0

# The most bytes of a result, which the pages of the last requests may make larger than MOST_BYTES.
MOST_RESULT = 512 * 1024 * 1024

# Seconds between two checks whether the run has stopped.
_CHECK_EVERY = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Task:
    """The accounts that a task scans, and how. `sent_at` and `monotonic` are the run's clock. It has no API key."""

    sent_at: datetime
    monotonic: float
    options: ScanOptions
    paths: PagePaths
    concurrency: int
    most_requests: int | None
    accounts: list[AccountScan]


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a task returns: what the run lands, and the accounts that are left, each with the time until which it waits.

    Times are monotonic and continue those of the run; `ended_at` is the task's end. `stops_run` and `stops_media` are
    errors that end the run or its media scans.
    """

    commits: list[PageCommit]
    left: list[tuple[AccountScan, float]]
    ended_at: float
    progress: Progress
    stops_run: Failure | None = None
    stops_media: Failure | None = None

    def pack(self) -> bytes:
        """Return it as a worker sends it."""
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(pickle.dumps(self))
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    @staticmethod
    def unpack(packed: bytes) -> "Scanned | None":
        """Return what a worker sent; None if it cannot be read, or is too large."""
        try:
            with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
                scanned = pickle.loads(stream.read(MOST_RESULT))  # noqa: S301 - from our own worker
        except Exception as error:  # noqa: BLE001 - unpickling may raise anything
            _log.warning("The result of a task cannot be read: %s", error)
            return None
        return scanned if isinstance(scanned, Scanned) else None


class Pause(Exception):  # noqa: N818 - not an error
    """A scan ends between two pages, and continues in another task after `seconds`."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class TaskClock:
    """The clock of the run that sent a task, continued by a worker's monotonic clock."""

    def __init__(self, task: Task, clock: Clock) -> None:
        self._task = task
        self._clock = clock
        self._began = clock.monotonic()

    def now(self) -> datetime:
        """Return the time of day, UTC."""
        return self._task.sent_at + timedelta(seconds=self._clock.monotonic() - self._began)

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        return self._task.monotonic + self._clock.monotonic() - self._began

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling coroutine for this many seconds."""
        await self._clock.sleep(seconds)


@dataclass(slots=True)
class _Results:
    """What the scans of a task land, and when they must end."""

    task: Task
    clock: Clock
    report: Callable[[str, float], None]
    progress: Progress = field(default_factory=Progress)
    commits: list[PageCommit] = field(default_factory=list)
    size: int = 0
    is_stopped: bool = False

    async def land(self, commit: PageCommit) -> None:
        if (cooldown := commit.cooldown) is not None:
            self.report(cooldown.scope, (cooldown.resume_after - self.clock.now()).total_seconds())
            return
        self.commits.append(commit)
        self.size += len(commit.page.body) if commit.page else 0

    def bounds(self, seconds: float) -> None:
        if seconds > MOST_SLEEP:
            raise Pause(seconds)
        is_late = self.clock.monotonic() - self.task.monotonic >= MOST_SECONDS
        is_spent = self.task.most_requests is not None and self.progress.requests >= self.task.most_requests
        if self.is_stopped or is_late or is_spent or self.size >= MOST_BYTES:
            raise Pause


async def scan_task(
    task: Task,
    send: Send,
    *,
    clock: Clock,
    random: Callable[[], float],
    new_id: Callable[[], str],
    report: Callable[[str, float], None],
    stopped: Callable[[], Awaitable[object]],
    earlier: Sequence[Sequence[Any]] = (),
) -> Scanned:
    """Scan the accounts of a task within its bounds; `clock` continues that of the run.

    `report` is called with each cooldown's scope and seconds; `stopped` returns when the run has stopped. `earlier` are
    the events of attempts at this task on workers that died. Accounts that were limited then are returned untouched:
    the run knows for how long, but this task does not. If requests are limited, all are, because it is not known how
    many were made.
    """
    results = _Results(task, clock, report)
    if earlier and task.most_requests is not None:
        results.progress.requests = task.most_requests
    cooling = {event[1] for event in earlier if event[0] == "cooldown"}
    left = [(account, clock.monotonic()) for account in task.accounts if account.budget.scope in cooling]
    run = ScanContext(
        task.options,
        send,
        results.land,
        post_reader(task.options.stored_mapping),
        clock,
        random,
        new_id,
        Slots.for_requests(task.concurrency),
        results.progress,
        bounds=results.bounds,
    )

    async def scan(account: AccountScan) -> None:
        try:
            await scan_account(run, account, lambda _: None)
        except Pause as pause:
            due = account.budget.due(clock.monotonic())
            account.budget.spend(due)
            left.append((account, clock.monotonic() + max(due, pause.seconds)))

    async def watch() -> None:
        try:
            await stopped()
        finally:
            # Also if the scheduler does not answer: nothing could receive the result.
            results.is_stopped = True

    watching = asyncio.create_task(watch())
    try:
        async with fail_fast_group() as group:
            for account in task.accounts:
                if account.budget.scope not in cooling:
                    group.create_task(scan(account))
    finally:
        watching.cancel()
    failures = run.stop.failure, run.stop_media.failure
    return Scanned(results.commits, left, clock.monotonic(), results.progress, *failures)


def terms_of(settings: Settings, salt: str) -> dict[str, str]:
    """Return what run and workers must have in common. The salt makes the fingerprint of the key useless elsewhere."""
    key = settings.key().get_secret_value().encode()
    return {
        "gramhouse": release(),
        "Python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "the address": normalized(settings.address()),
        "an API key with the fingerprint": hashlib.blake2b(key, key=salt.encode(), digest_size=8).hexdigest(),
    }


def _worker_settings(terms: Mapping[str, str], salt: str, worker: str) -> Settings:
    """Return the settings of the worker's own environment. Raises SettingsError if the run has other terms."""
    try:
        settings = load()
        own = terms_of(settings, salt)
    except SettingsError as error:
        message = f"the worker {worker}: {error}"
        raise SettingsError(message) from None
    for name, expected in terms.items():
        if own.get(name) != expected:
            message = (
                f"the worker {worker} has {name} {own.get(name)}, and the run has {expected}."
                " Fix: start the workers with the installation and the settings of the run."
            )
            raise SettingsError(message)
    return settings


def run_task(terms: Mapping[str, str], topic: str, packed: bytes) -> bytes:
    """Run a task on a Dask worker, with the address and the key of the worker's own environment.

    Raises SettingsError if the worker cannot scan for this run.
    """
    from distributed import get_client, get_worker  # noqa: PLC0415 - a part of an extra

    worker, client, of_run = get_worker(), get_client(), topic.rpartition("/")[0]
    settings = _worker_settings(terms, of_run, worker.address)
    task: Task = pickle.loads(packed)  # noqa: S301 - the scheduler's clients can run any code here
    earlier = [event for _, event in client.get_events(topic)]
    worker.log_event(topic, ["began"])
    key, clock, network = worker.get_current_task(), TaskClock(task, SystemClock()), settings.network()

    def is_wanted() -> bool:
        # A task that the run released, or that has no run any more, is not executing for the scheduler.
        state = worker.state.tasks.get(key)
        return state is not None and state.state == "executing" and not client.get_events(of_run)

    async def stopped() -> None:
        while await asyncio.to_thread(is_wanted):
            await clock.sleep(_CHECK_EVERY)

    async def scan() -> Scanned:
        api = ApiClient(
            settings.address(),
            settings.key(),
            clock=clock,
            concurrency=task.concurrency,
            certificates=network.certificates,
            proxy=network.proxy,
            paths=task.paths,
        )
        async with api:
            return await scan_task(
                task,
                api.send,
                clock=clock,
                random=SystemRandom().random,
                new_id=new_id,
                report=lambda scope, seconds: worker.log_event(topic, ["cooldown", scope, seconds]),
                stopped=stopped,
                earlier=earlier,
            )

    return asyncio.run(scan()).pack()

"""A bounded task on a Dask worker: scans accounts, and returns what the run lands and what is left to scan.

It ends with 16 MB of pages, or after a minute. No clock of a worker is read: a task continues the clock of the run by
the seconds since it began.
"""

import asyncio
import hashlib
import math
import pickle
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from random import SystemRandom

import pyarrow as pa

from connectors.source.base_url import normalized
from connectors.source.client import ApiClient
from connectors.source.errors import Failure
from connectors.source.request_rate import RequestRate
from connectors.source.retry import Send
from flows.clock import ContinuedClock, SystemClock, new_id
from flows.config.errors import SettingsError
from flows.config.release import release
from flows.config.settings import Settings, load
from flows.engine.concurrency import Pacer, Slots, fail_fast_group
from flows.engine.paging import AccountScan, scan_account
from flows.engine.run_request import RunRequest
from flows.engine.scan import Beginning, ScanContext
from flows.reporting.progress import Progress
from models.clock import Clock
from models.media_page import PagePaths
from models.page_commit import PageCommit
from models.page_items import post_reader

# The bounds of a task: bytes of pages, and seconds. It leaves sleeps of more than MOST_SLEEP seconds to the run.
MOST_BYTES = 16 * 1024 * 1024
MOST_SECONDS = 60.0
MOST_SLEEP = 1.0

# The most bytes of a result. The pages of its last requests may make it larger than MOST_BYTES.
MOST_RESULT = 512 * 1024 * 1024

# Why a task was lost.
WORKER_DIED = "its worker died"

# Seconds between two checks whether the run still needs the task.
_CHECK_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class Task:
    """The accounts that a task scans, and how. `sent_at` and `monotonic` are the run's clock. It has no API key.

    `rate` is its share of the run's requests per second.
    """

    sent_at: datetime
    monotonic: float
    request: RunRequest
    beginning: Beginning
    paths: PagePaths
    concurrency: int
    most_requests: int | None
    accounts: list[AccountScan]
    rate: RequestRate


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a task returns: what the run lands, and the accounts that are left, each with the seconds that it waits.

    `rate` has what it was refused. `stops_run` and `stops_media` are errors that end the run or its media scans.
    """

    commits: list[PageCommit]
    left: list[tuple[AccountScan, float]]
    progress: Progress
    rate: RequestRate
    stops_run: Failure | None = None
    stops_media: Failure | None = None

    def pack(self) -> bytes:
        """Return it as a worker sends it: the number of its bytes, and these compressed."""
        data = pickle.dumps(self)
        return pickle.dumps((len(data), pa.compress(data, codec="zstd", asbytes=True)))

    @staticmethod
    def unpack(packed: bytes | str) -> "Scanned | str":
        """Return what a worker sent, or why there is nothing."""
        if isinstance(packed, str):
            return packed
        try:
            size, data = pickle.loads(packed)  # noqa: S301 - from our own worker
            if size > MOST_RESULT:
                return f"its result has {size:,} bytes"
            return pickle.loads(pa.decompress(data, decompressed_size=size, codec="zstd"))  # type: ignore[no-any-return] # noqa: S301
        except Exception as error:  # noqa: BLE001 - unpickling may raise anything
            return f"its result cannot be read ({error})"


class Pause(Exception):  # noqa: N818 - not an error
    """A scan ends between two pages, and continues in another task after `seconds`."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__(seconds)
        self.seconds = seconds


@dataclass(slots=True)
class _Results:
    """What the scans of a task land, and when they must end."""

    task: Task
    clock: Clock
    report: Callable[[str, float], None]
    is_wanted: Callable[[], bool]
    progress: Progress = field(default_factory=Progress)
    commits: list[PageCommit] = field(default_factory=list)
    size: int = 0
    checked_at: float = -math.inf
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
        now, most = self.clock.monotonic(), self.task.most_requests
        if now - self.checked_at >= _CHECK_EVERY:
            self.checked_at, self.is_stopped = now, not self.is_wanted()
        is_late = now - self.task.monotonic >= MOST_SECONDS
        is_spent = most is not None and self.progress.requests >= most
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
    is_wanted: Callable[[], bool],
) -> Scanned:
    """Scan the accounts of a task within its bounds; `clock` continues that of the run.

    `report` is called with the scope and the seconds of each cooldown, and `is_wanted` once a second: the task ends if
    the run has stopped.
    """
    results = _Results(task, clock, report, is_wanted)
    left: list[tuple[AccountScan, float]] = []
    run = ScanContext(
        task.request,
        task.beginning,
        send,
        results.land,
        post_reader(task.beginning.stored_mapping),
        clock,
        random,
        new_id,
        Slots.for_requests(task.concurrency),
        results.progress,
        Pacer(task.rate),
        results.bounds,
    )

    async def scan(account: AccountScan) -> None:
        try:
            await scan_account(run, account, lambda _: None)
        except Pause as pause:
            due = account.budget.due(clock.monotonic())
            account.budget.waited += due
            left.append((account, max(due, pause.seconds)))

    async with fail_fast_group() as group:
        for account in task.accounts:
            group.create_task(scan(account))
    stopped_by = (run.stop.failure, run.stop_media.failure)
    return Scanned(results.commits, left, results.progress, run.pacer.rate, *stopped_by)


def terms_of(settings: Settings, salt: str) -> dict[str, str]:
    """Return what run and workers must have in common. The salt makes the fingerprint of the key useless elsewhere."""
    key = settings.key().get_secret_value().encode()
    return {
        "gramhouse": release(),
        "Python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "the address": normalized(settings.address()),
        "an API key with the fingerprint": hashlib.blake2b(key, key=salt.encode(), digest_size=8).hexdigest(),
    }


def run_task(terms: Mapping[str, str], topic: str, packed: bytes) -> bytes | str:
    """Run a task on a Dask worker, with the address and the key of the worker's own environment.

    Dask repeats a task whose worker died. Only the run knows what happened since it was sent, such as cooldowns, so the
    second attempt does nothing. Returns a packed result, or why there is none. Raises SettingsError if the worker
    cannot scan for this run.
    """
    from distributed import get_worker  # noqa: PLC0415 - a part of an extra
    from distributed.utils import sync  # noqa: PLC0415 - a part of an extra

    worker, of_run = get_worker(), topic.rpartition("/")[0]

    def has_events(topic: str) -> bool:
        # A client of the worker's own would print a traceback if the worker ended while it connects.
        return bool(sync(worker.loop, worker.scheduler.events, topic=topic))

    try:
        settings = load()
        own = terms_of(settings, of_run)
    except SettingsError as error:
        raise SettingsError(f"the worker {worker.address}: {error}") from None
    if different := [name for name in terms if own.get(name) != terms[name]]:
        raise SettingsError(
            f"the worker {worker.address} has {different[0]} {own.get(different[0])}, and the run has"
            f" {terms[different[0]]}. Fix: start the workers with the installation and the settings of the run."
        )
    if has_events(topic):
        return WORKER_DIED
    worker.log_event(topic, ["began"])
    task: Task = pickle.loads(packed)  # noqa: S301 - the scheduler's clients can run any code here
    key, clock, network = (
        worker.get_current_task(),
        ContinuedClock(SystemClock(), task.sent_at, task.monotonic),
        settings.network(),
    )

    def is_wanted() -> bool:
        # A task that the run released, or that has no run any more, is not executing for the scheduler.
        state = worker.state.tasks.get(key)
        return state is not None and state.state == "executing" and not has_events(of_run)

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
                is_wanted=is_wanted,
            )

    try:
        return asyncio.run(scan()).pack()
    except Exception as error:  # noqa: BLE001 - a run waits for ever if it cannot unpickle an exception
        file, line, *_ = traceback.extract_tb(error.__traceback__)[-1]
        return f"of an error of the worker {worker.address}: {error!r} at {file}:{line}"

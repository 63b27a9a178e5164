"""Scanning a batch on a worker: the body of a Dask task."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import SystemRandom

from connectors.source.base_url import normalized
from connectors.source.client import ApiClient
from connectors.source.retry import Send
from connectors.store.object_store import ObjectStore
from connectors.store.opening import open_store
from flows.cluster.batch_log import BatchLog, End, Entry, Requests
from flows.cluster.batch_spec import BatchSpec, read_spec
from flows.cluster.stop_mark import StopMark, read_stop
from flows.cluster.typed_parts import TypedPartWriter
from flows.config.errors import SettingsError
from flows.config.settings import load
from flows.engine.batch_scan import scan_batch
from flows.engine.batches import Batch
from flows.engine.clock import SystemClock, new_id
from flows.engine.concurrency import Slots
from flows.engine.run_context import Counters, Landed, ScanContext, ScanResources, StopSignal
from models.checkpoint import Checkpoint, RunKind, ScanState
from models.clock import Clock
from models.incremental import ClosedScan
from models.page_commit import PageCommit
from models.page_items import ids_of, post_reader
from models.partition import Partition
from models.runs import Outcome
from models.schema.mapping import Mapping as MediaMapping

# An entry is written after this many pages, this many bytes of pages, or this many seconds.
_PAGES = 100
_BYTES = 4 * 1024 * 1024
_SECONDS = 5.0

# Seconds between two checks for the run's stop mark.
_STOP_EVERY = 2.0


@dataclass(slots=True)
class Progress:
    """The state of a batch according to its log: checkpoints, pages and items landed, outcomes, cooldowns.

    `seen` are the ids of the items that unfinished scans have received, by scan.
    """

    checkpoints: dict[Partition, Checkpoint] = field(default_factory=dict)
    landed: dict[Partition, Landed] = field(default_factory=dict)
    outcomes: dict[Partition, Outcome] = field(default_factory=dict)
    cooldowns: dict[str, datetime] = field(default_factory=dict)
    seen: dict[str, set[str]] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        """Add the next entry of the log."""
        for commit in entry.commits:
            self._add(commit)
        for scan_id, ids in entry.seen.items():
            self.seen.setdefault(scan_id, set()).update(ids)

    def _add(self, commit: PageCommit) -> None:
        if (checkpoint := commit.checkpoint) is not None:
            self._count(checkpoint)
            self.checkpoints[checkpoint.partition] = checkpoint
            if checkpoint.state is not ScanState.SCANNING:
                # The ids are only needed for scans that are resumed.
                self.seen.pop(checkpoint.scan_id, None)
        for outcome in commit.outcomes:
            self.outcomes[outcome.partition] = outcome
        if (cooldown := commit.cooldown) is not None:
            self.cooldowns[cooldown.scope] = cooldown.resume_after

    def _count(self, checkpoint: Checkpoint) -> None:
        before = self.checkpoints.get(checkpoint.partition)
        pages, items = self.landed.get(checkpoint.partition, Landed())
        if before is not None and before.scan_id == checkpoint.scan_id:
            pages, items = pages - before.pages, items - before.items
        self.landed[checkpoint.partition] = Landed(pages + checkpoint.pages, items + checkpoint.items)


def remaining(batch: Batch, outcomes: Collection[Partition]) -> Batch:
    """Return the batch without the scans that already have an outcome."""
    accounts = []
    for account in batch.accounts:
        done = {partition.surface for partition in outcomes if partition.account_id == account.account_id}
        surfaces = tuple(surface for surface in account.surfaces if surface not in done)
        if surfaces:
            accounts.append(replace(account, surfaces=surfaces))
    return Batch(batch.first, tuple(accounts))


def unfinished_ids(commits: Sequence[PageCommit], mapping: MediaMapping) -> dict[str, list[str]]:
    """Return the ids of the items of pages whose scan does not end in these commits, by scan."""
    ended = {
        commit.checkpoint.scan_id
        for commit in commits
        if commit.checkpoint is not None and commit.checkpoint.state is not ScanState.SCANNING
    }
    found: dict[str, list[str]] = {}
    for page in (commit.page for commit in commits):
        if page is not None and page.scan_id and page.scan_id not in ended:
            found.setdefault(page.scan_id, []).extend(ids_of(page.body, mapping))
    return found


class LoggedScans:
    """Lands the scans of a batch on a worker in the batch's log. See `flows.engine.run_context.ScanStore`.

    Pages are buffered until an entry is due. If the worker dies, these pages are lost and requested again. A cooldown
    is written immediately.
    """

    def __init__(self, log: BatchLog, spec: BatchSpec, progress: Progress, attempt: str, counters: Counters) -> None:
        self._log = log
        self._spec = spec
        self._progress = progress
        self._attempt = attempt
        self._counters = counters
        self._reported = Requests()
        self._waiting: list[PageCommit] = []
        self._bytes = 0
        self._lock = asyncio.Lock()
        self._parts = TypedPartWriter(
            spec.api.stored_mapping,
            {(one.resource, one.path): one for one in spec.before.registry},
            # An earlier attempt may have sent other bytes of the same items.
            {partition: hashes for partition, hashes in spec.before.hashes if partition not in progress.landed},
        )

    async def land(self, landing: PageCommit) -> None:
        """Buffer a commit, and write the next entry if it is due. Raises Fenced and StoreError."""
        self._waiting.append(landing)
        self._bytes += len(landing.page.body) if landing.page else 0
        if landing.cooldown is not None or len(self._waiting) >= _PAGES or self._bytes >= _BYTES:
            await self.flush()

    async def flush(self, end: End | None = None, *, stop: StopMark | None = None) -> None:
        """Write the buffered commits, if any, as the next entry; `end` closes the log. Raises Fenced and StoreError."""
        async with self._lock:
            if not self._waiting and end is None:
                return
            commits, self._waiting, self._bytes = tuple(self._waiting), [], 0
            made = Requests(**{name: getattr(self._counters, name) for name in Requests.__slots__})
            since = {name: getattr(made, name) - getattr(self._reported, name) for name in Requests.__slots__}
            without_items, part = self._parts.move_items(commits)
            seen = unfinished_ids(commits, self._spec.api.mapping)
            try:
                await self._log.append(Entry(self._attempt, without_items, part, seen, Requests(**since), end, stop))
            except BaseException:
                # The task that writes the next entry must not omit the commits of this one.
                self._waiting = [*commits, *self._waiting]
                raise
            self._reported = made

    async def checkpoints(
        self, resource: str, account_ids: Collection[str], run_kind: RunKind = "sync"
    ) -> Mapping[Partition, Checkpoint]:
        """Return the last checkpoints: those of the log, otherwise those of the warehouse."""
        del resource, run_kind
        wanted = set(account_ids)
        return {one: found for one, found in self._progress.checkpoints.items() if one.account_id in wanted}

    async def seen(self, scan_id: str) -> Collection[str]:
        """Return the ids of the items that an unfinished scan has received, in earlier runs and attempts."""
        return self._progress.seen.get(scan_id, set()).union(self._spec.before.seen.get(scan_id, ()))

    async def closed_scans(self, account_ids: Sequence[str]) -> Mapping[str, ClosedScan]:
        """Return the last closed scans of posts, by account."""
        closed = self._spec.before.closed
        return {account_id: closed[account_id] for account_id in account_ids if account_id in closed}

    async def known_posts(
        self, closed: Mapping[str, ClosedScan], *, older_than: datetime
    ) -> Mapping[str, frozenset[str]]:
        """Return the posts that these closed scans have seen, by account; `older_than` is ignored.

        The run's process has already applied it to the posts in the specification.
        """
        del older_than
        known = self._spec.before.known
        return {account_id: known[account_id] for account_id in closed if account_id in known}


async def scan_logged(
    store: ObjectStore,
    prefix: str,
    spec: BatchSpec,
    send: Send,
    *,
    clock: Clock,
    random: Callable[[], float],
    new_id: Callable[[], str],
) -> None:
    """Scan the partitions of a batch that have no outcome in its log yet, and close the log.

    Raises Fenced if another attempt has replaced this one, and StoreError.
    """
    log = BatchLog(store, prefix)
    progress = Progress({checkpoint.partition: checkpoint for checkpoint in spec.before.checkpoints})
    async for entry in log.read():
        if entry.end is not None:
            return
        progress.add(entry)
    api, counters = spec.api, Counters()
    scans = LoggedScans(log, spec, progress, new_id(), counters)
    resources = ScanResources(
        send=send,
        warehouse=scans,
        clock=clock,
        random=random,
        new_id=new_id,
        slots=Slots.for_requests(api.concurrency),
        page_size=api.page_size,
        max_wait=api.max_wait,
        scan_expired=api.scan_expired,
        base_url=normalized(api.base_url),
        mapping=api.mapping,
    )
    run = ScanContext(
        spec.run_id,
        spec.started_at,
        # An attempt also resumes scans of earlier attempts of the same run.
        (*spec.resumed_runs, spec.run_id),
        {**spec.before.cooldowns, **progress.cooldowns},
        resources,
        spec.fresh_within,
        spec.run_kind,
        mode=spec.mode,
        read_posts=post_reader(api.stored_mapping),
        counters=counters,
        landed=progress.landed,
    )
    run_folder = prefix.rpartition("/")[0]
    if (mark := await read_stop(store, run_folder)) is not None and not stop_scans(run, mark):
        return
    scanning: asyncio.Task[object] = asyncio.create_task(scan_batch(run, remaining(spec.batch, progress.outcomes)))
    background: list[asyncio.Task[None]] = [
        asyncio.create_task(_flush_regularly(scans, clock, scanning)),
        asyncio.create_task(_watch_for_stop(store, run_folder, run, scanning, clock)),
    ]
    try:
        await asyncio.wait([scanning, *background], return_when=asyncio.FIRST_COMPLETED)
        for task in background:
            if task.done():
                # These tasks end only with an error, or after they cancelled or outlived the scans.
                task.result()
        await asyncio.wait([scanning])
        if scanning.cancelled():
            await scans.flush()
            return
        scanning.result()
        await scans.flush(End.DONE, stop=_found_to_stop(run))
    finally:
        scanning.cancel()
        for task in background:
            task.cancel()
        await asyncio.gather(scanning, *background, return_exceptions=True)


def _found_to_stop(run: ScanContext) -> StopMark | None:
    if run.stop.error is not None:
        return StopMark(run.stop.error)
    return None if run.stop_media.error is None else StopMark(run.stop_media.error, only_media=True)


async def _flush_regularly(scans: LoggedScans, clock: Clock, scanning: "asyncio.Task[object]") -> None:
    while not scanning.done():
        await clock.sleep(_SECONDS)
        await scans.flush()


async def _watch_for_stop(
    store: ObjectStore, run_prefix: str, run: ScanContext, scanning: "asyncio.Task[object]", clock: Clock
) -> None:
    while (mark := await read_stop(store, run_prefix)) is None:
        await clock.sleep(_STOP_EVERY)
    if not stop_scans(run, mark):
        scanning.cancel()
        return
    await scanning


def stop_scans(run: ScanContext, mark: StopMark) -> bool:
    """Make scans end with the mark's error as their outcome.

    Return False if the mark has no error: the caller must then end the scans without outcomes.
    """
    if mark.failure is None:
        return False
    signals: tuple[StopSignal, ...] = (run.stop_media,) if mark.only_media else (run.stop, run.stop_media)
    for signal in signals:
        signal.set(mark.failure)
    return True


async def scan_stored(store_url: str, prefix: str) -> None:
    """Scan the batch at `prefix` of the store, on any machine. The result is in the batch's log.

    API key and address are read from the worker's own environment: whoever can write to the store must not be able to
    choose where the key is sent. Raises SettingsError, Fenced and StoreError.
    """
    settings = load()
    clock = SystemClock()
    store = open_store(store_url, clock=clock)
    spec = await read_spec(store, prefix)
    own = settings.base_url
    if own is None or normalized(own) != normalized(spec.api.base_url):
        message = (
            f"the address of a worker is {own or 'not set'}, and that of the batch {spec.api.base_url}."
            " Fix: set GRAMHOUSE_BASE_URL of the workers to the address of the run."
        )
        raise SettingsError(message)
    network = settings.network()
    client = ApiClient(
        spec.api.base_url,
        settings.key(),
        clock=clock,
        concurrency=spec.api.concurrency + 1,
        certificates=network.certificates,
        proxy=network.proxy,
        paths=spec.api.paths,
    )
    async with client:
        await scan_logged(
            store,
            prefix,
            spec,
            client.send,
            clock=clock,
            random=SystemRandom().random,
            new_id=new_id,
        )


def sync_batch(store_url: str, prefix: str) -> None:
    """Run `scan_stored` as a Dask task."""
    asyncio.run(scan_stored(store_url, prefix))

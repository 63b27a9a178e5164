"""The loader: reads the logs of batches in the shared store as they grow, and merges each entry once."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connectors.store.object_store import ObjectStore
from connectors.warehouse.runs.batch_logs import LogEntry, MergedLog
from connectors.warehouse.warehouse import Warehouse
from flows.cluster.batch_log import BatchLog, End, Entry, Fenced
from flows.cluster.batch_spec import batch_prefix
from flows.cluster.stop_mark import StopMark
from flows.engine.batches import Batch, BatchReport
from flows.engine.run_context import Counters
from models.clock import Clock
from models.partition import Partition
from models.runs import Outcome, OutcomeKind, Tally

# Entries are merged when their items have this many bytes (about 140,000 items), or when the first has waited for this
# many seconds. DuckDB writes more than 122,880 new rows directly to the file, and smaller merges also to its log.
_MERGE_BYTES = 128 * 1024 * 1024
_MERGE_AFTER = 15.0

# Seconds between polls of all logs: initially, and the maximum to which it grows while there are no new entries.
_POLL, _LONGEST_POLL = 0.1, 2.0

# Logs that are read concurrently: each may return an entry of several megabytes before the next merge.
_LOGS_AT_ONCE = 8

OnStop = Callable[[StopMark], object]


@dataclass(slots=True)
class FollowedBatch:
    """A batch whose log is being read. `expected`: the items of each partition's last closed scan, None if unknown."""

    number: int
    batch: Batch
    expected: Mapping[Partition, int | None]
    log: BatchLog
    merged: asyncio.Event = field(default_factory=asyncio.Event)
    _kinds: Counter[OutcomeKind] = field(default_factory=Counter)
    _pages: int = 0
    _items: int = 0

    def count(self, entry: Entry, counters: Counters) -> None:
        """Add an entry to the batch's result and to the run's counters."""
        for commit in entry.commits:
            counters.pages += commit.page is not None
            if commit.cooldown is not None:
                counters.cooldowns[commit.cooldown.scope] = commit.cooldown.resume_after
            for outcome in commit.outcomes:
                self._end(outcome, counters)
        made = entry.requests
        counters.requests += made.requests
        counters.retries += made.retries
        counters.restarted += made.restarted
        if entry.end is End.DONE:
            counters.accounts_done += len(self.batch.accounts)

    def _end(self, outcome: Outcome, counters: Counters) -> None:
        self._kinds[outcome.kind] += 1
        self._pages += outcome.pages
        self._items += outcome.items
        counters.items += outcome.items
        if outcome.partition in self.expected:
            expected = self.expected[outcome.partition]
            counters.items_left -= min(outcome.items, expected or 0)
            counters.end(expected, outcome.items)

    def report(self) -> BatchReport:
        """Return the batch's result, as far as its log has been read."""
        return BatchReport(self.batch, Tally(dict(self._kinds)), self._pages, self._items)


class Loader:
    """Reads the logs of one run's batches and merges them."""

    def __init__(
        self,
        store: ObjectStore,
        warehouse: Warehouse,
        sequence: int,
        *,
        clock: Clock,
        merge_bytes: int = _MERGE_BYTES,
    ) -> None:
        self._store = store
        self._warehouse = warehouse
        self._sequence = sequence
        self._clock = clock
        self._merge_bytes = merge_bytes
        self._open: dict[int, FollowedBatch] = {}
        self._waiting: list[LogEntry] = []
        self._waiting_bytes = 0
        self._waiting_since = 0.0
        self._read: list[FollowedBatch] = []

    def follow(self, number: int, batch: Batch, expected: Mapping[Partition, int | None]) -> FollowedBatch:
        """Begin to read a batch's log; `merged` of the result is set when the whole log is merged."""
        log = BatchLog(self._store, batch_prefix(self._sequence, number))
        followed = self._open[number] = FollowedBatch(number, batch, expected, log)
        return followed

    async def run(self, counters: Counters, on_stop: OnStop) -> None:
        """Read and merge until cancelled; call `on_stop` with each error that ends the run.

        The logs are read in turn, a few at a time. Raises StoreError and WarehouseUnusable.
        """
        begin, pause = 0, _POLL
        while True:
            logs = list(self._open.values())
            some, begin = logs[begin : begin + _LOGS_AT_ONCE], begin + _LOGS_AT_ONCE
            found = await asyncio.gather(*(self._next(followed, counters, on_stop) for followed in some))
            if self._is_due():
                await self._merge()
            if begin < len(logs):
                continue
            begin, pause = 0, _POLL if any(found) else min(2 * pause, _LONGEST_POLL)
            await self._clock.sleep(pause)

    async def _next(self, followed: FollowedBatch, counters: Counters, on_stop: OnStop) -> bool:
        entry = await followed.log.next()
        if entry is None:
            return False
        followed.count(entry, counters)
        if entry.stop is not None:
            on_stop(entry.stop)
        self._keep(followed.number, followed.log.last, entry)
        if entry.end is not None:
            del self._open[followed.number]
            self._read.append(followed)
        return True

    def _keep(self, batch: int, number: int, entry: Entry) -> None:
        if not self._waiting:
            self._waiting_since = self._clock.monotonic()
        self._waiting.append(
            LogEntry(self._sequence, batch, number, entry.commits, entry.part, last=entry.end is not None)
        )
        self._waiting_bytes += len(entry.part or b"")

    def _is_due(self) -> bool:
        waited = self._clock.monotonic() - self._waiting_since >= _MERGE_AFTER
        return bool(self._waiting) and (self._waiting_bytes >= self._merge_bytes or not self._open or waited)

    async def _merge(self) -> None:
        entries, self._waiting, self._waiting_bytes = self._waiting, [], 0
        read, self._read = self._read, []
        await self._warehouse.load(entries)
        for followed in read:
            followed.merged.set()

    async def drain(self, merged: Mapping[int, MergedLog], *, attempt: str) -> None:
        """Merge all entries of the run's logs, and close each log, so that attempts can no longer add entries.

        `merged`: how much of each log is already merged. Raises StoreError and WarehouseUnusable.
        """
        number = 0
        while await self._store.get(f"{batch_prefix(self._sequence, number + 1)}/batch") is not None:
            number += 1
            before = merged.get(number, MergedLog())
            if not before.is_closed:
                await self._drain_batch(number, before.entries, attempt)
        if self._waiting:
            await self._merge()

    async def _drain_batch(self, number: int, entries: int, attempt: str) -> None:
        log = BatchLog(self._store, batch_prefix(self._sequence, number), entries)
        while True:
            async for entry in log.read():
                self._keep(number, log.last, entry)
                if self._waiting_bytes >= self._merge_bytes:
                    await self._merge()
                if entry.end is not None:
                    return
            seal = Entry(attempt, end=End.SEALED)
            try:
                await log.append(seal)
            except Fenced:
                # An attempt has written another entry in the meantime.
                continue
            self._keep(number, log.last, seal)
            return

"""Heartbeats of a process that scans a batch.

Without them, a process whose machine is gone looks like one that waits for a cooldown and lands nothing. Prefect does
not detect this.
"""

from collections.abc import Callable

from connectors.store.object_store import ObjectStore
from models.clock import Clock

# Seconds between heartbeats and between checks, and seconds without a heartbeat after which a process counts as gone.
_EVERY = 60.0
_SILENCE = 300.0


def _key(prefix: str) -> str:
    return f"{prefix}/alive"


async def write_heartbeats(store: ObjectStore, prefix: str, *, clock: Clock, new_id: Callable[[], str]) -> None:
    """Write a heartbeat every minute until cancelled. Raises StoreError."""
    while True:
        await store.put(_key(prefix), new_id().encode())
        await clock.sleep(_EVERY)


class Listener:
    """Checks the heartbeats of the process that scans the batch at `prefix`."""

    def __init__(self, store: ObjectStore, prefix: str, *, clock: Clock) -> None:
        self._store = store
        self._prefix = prefix
        self._clock = clock
        self._heartbeat: bytes | None = None
        self._changed_at: float | None = None
        self._looked_at = 0.0

    async def is_gone(self) -> bool:
        """Return whether there was no new heartbeat for 5 minutes, counted from the first call at the earliest.

        The store is read once a minute at most. Only this machine's clock is used: a heartbeat is an id, not a time.
        Raises StoreError.
        """
        now = self._clock.monotonic()
        if self._changed_at is not None and now - self._looked_at < _EVERY:
            return False
        self._looked_at = now
        heartbeat = await self._store.get(_key(self._prefix))
        if self._changed_at is None or heartbeat != self._heartbeat:
            self._heartbeat, self._changed_at = heartbeat, now
        return now - self._changed_at >= _SILENCE

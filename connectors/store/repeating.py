"""A store that retries operations while it is temporarily unavailable."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from connectors.store.object_store import ObjectStore, StoreUnavailableError
from models.clock import Clock

T = TypeVar("T")

# Seconds: the first pause between two tries, which doubles each time; the longest pause; all pauses together.
_FIRST_PAUSE, _LONGEST_PAUSE, _TOTAL_PAUSE = 0.5, 10.0, 120.0


class RepeatingStore:
    """Repeats operations that raise StoreUnavailableError for up to 2 minutes, then raises it."""

    def __init__(self, store: ObjectStore, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def put(self, key: str, data: bytes) -> None:
        """Write an object atomically, replacing one with the same key."""
        await self._repeat(lambda: self._store.put(key, data))

    async def create(self, key: str, data: bytes) -> bool:
        """Write an object unless one with that key exists; return whether it was written."""
        tries = 0

        async def create() -> bool:
            nonlocal tries
            tries += 1
            # An attempt that failed may have written the object.
            return await self._store.create(key, data) or (tries > 1 and await self._store.get(key) == data)

        return await self._repeat(create)

    async def get(self, key: str) -> bytes | None:
        """Return an object's content; None if it does not exist."""
        return await self._repeat(lambda: self._store.get(key))

    async def list(self, prefix: str) -> list[str]:
        """Return the keys below a prefix, sorted; new objects may be missing for a while."""
        return await self._repeat(lambda: self._store.list(prefix))

    async def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; keys that do not exist are ignored."""
        kept = list(keys)
        await self._repeat(lambda: self._store.delete(kept))

    async def _repeat(self, call: Callable[[], Awaitable[T]]) -> T:
        pause, ends = _FIRST_PAUSE, self._clock.monotonic() + _TOTAL_PAUSE
        while True:
            try:
                return await call()
            except StoreUnavailableError:
                if self._clock.monotonic() + pause > ends:
                    raise
                await self._clock.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

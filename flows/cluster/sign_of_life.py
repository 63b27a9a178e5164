"""Signs of life of a process that scans a batch: it may rightly land nothing for as long as a cooldown lasts.

Nothing else says that its machine is gone where the engine does not notice, as Prefect does not.
"""

from collections.abc import Callable

from connectors.store.object_store import ObjectStore
from models.clock import Clock

# Seconds between two signs, and between two looks; and after which a process that gave none is gone.
_EVERY = 60.0
_SILENCE = 300.0


def _key(prefix: str) -> str:
    return f"{prefix}/alive"


async def give_signs(store: ObjectStore, prefix: str, *, clock: Clock, new_id: Callable[[], str]) -> None:
    """Write a sign every minute until cancelled. Raises StoreError."""
    while True:
        await store.put(_key(prefix), new_id().encode())
        await clock.sleep(_EVERY)


class Listener:
    """Looks for the signs of the process that scans the batch at `prefix`, from its creation on."""

    def __init__(self, store: ObjectStore, prefix: str, *, clock: Clock) -> None:
        self._store = store
        self._prefix = prefix
        self._clock = clock
        self._sign: bytes | None = None
        self._changed_at: float | None = None
        self._looked_at = 0.0

    async def is_gone(self) -> bool:
        """Say whether no new sign was given for 5 minutes since the first call; looks once a minute. Raises StoreError.

        By this machine's clock alone: what a sign says is only whether it is new.
        """
        now = self._clock.monotonic()
        if self._changed_at is not None and now - self._looked_at < _EVERY:
            return False
        self._looked_at = now
        sign = await self._store.get(_key(self._prefix))
        if self._changed_at is None or sign != self._sign:
            self._sign, self._changed_at = sign, now
        return now - self._changed_at >= _SILENCE

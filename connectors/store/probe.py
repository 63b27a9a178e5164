"""Checks that a store creates an object only once, which workers rely on."""

import asyncio
from collections.abc import Callable

from connectors.store.object_store import ObjectStore, StoreError

# Concurrent, as two attempts at one batch would be.
_RIVALS = 4


async def probe(store: ObjectStore, url: str, *, new_id: Callable[[], str]) -> None:
    """Create one object several times; raises StoreError unless exactly one attempt is accepted.

    Some servers with an S3 API ignore the condition and accept every attempt.
    """
    key = f"probe/{new_id()}"
    # Not deleted if this fails: the deletion would fail, too, after as many retries, and hide the reason.
    accepted = await asyncio.gather(*(store.create(key, str(rival).encode()) for rival in range(_RIVALS)))
    try:
        late = await store.create(key, b"late")
        content = await store.get(key)
        winners = [str(rival).encode() for rival, won in enumerate(accepted) if won]
        if winners != [content] or late:
            message = (
                f"the store {url} accepted an object that already existed, so two workers could overwrite each other."
                " Fix: use a store that supports conditional writes (If-None-Match), or a folder."
            )
            raise StoreError(message)
    finally:
        await store.delete([key])

"""Stores in memory that fail in ways a test chooses."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from connectors.store.object_store import StoreError, StoreUnavailableError


@dataclass
class MemoryStore:
    """Objects in a dictionary; `failure` is called with the verb and the key before each call, and may raise."""

    objects: dict[str, bytes] = field(default_factory=dict)
    failure: Callable[[str, str], None] = lambda _verb, _key: None

    async def put(self, key: str, data: bytes) -> None:
        self.failure("put", key)
        self.objects[key] = data

    async def create(self, key: str, data: bytes) -> bool:
        self.failure("create", key)
        return self.objects.setdefault(key, data) is data

    async def get(self, key: str) -> bytes | None:
        self.failure("get", key)
        return self.objects.get(key)

    async def list(self, prefix: str) -> list[str]:
        self.failure("list", prefix)
        return sorted(key for key in self.objects if key.startswith(prefix))

    async def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.failure("delete", key)
            self.objects.pop(key, None)


@dataclass
class FlakyStore(MemoryStore):
    """One call in fifty fails, before or after its effect; responses are late; a listing lacks the newest objects.

    Without `chance` it works normally.
    """

    chance: Random | None = None
    failed: int = 0
    listed: set[str] = field(default_factory=set)

    async def put(self, key: str, data: bytes) -> None:
        fails_after = await self._fail_before("put", key)
        await super().put(key, data)
        self._fail(fails_after, "put", key)

    async def create(self, key: str, data: bytes) -> bool:
        fails_after = await self._fail_before("create", key)
        # A copy, as if another process had read it.
        created = await super().create(key, bytes(bytearray(data)))
        self._fail(fails_after, "create", key)
        return created

    async def get(self, key: str) -> bytes | None:
        self._fail(await self._fail_before("get", key), "get", key)
        return await super().get(key)

    async def list(self, prefix: str) -> list[str]:
        self._fail(await self._fail_before("list", prefix), "list", prefix)
        found = await super().list(prefix)
        if self.chance is None:
            return found
        known, self.listed = self.listed, self.listed.union(found)
        return [key for key in found if key in known]

    async def delete(self, keys: Iterable[str]) -> None:
        kept = sorted(keys)
        fails_after = await self._fail_before("delete", kept[0] if kept else "")
        await super().delete(kept)
        self._fail(fails_after, "delete", kept[0] if kept else "")

    async def _fail_before(self, verb: str, key: str) -> bool:
        if self.chance is None:
            return False
        for _ in range(self.chance.randrange(6)):
            await asyncio.sleep(0)
        fails, is_done = self.chance.random() < 1 / 50, self.chance.random() < 1 / 2
        self._fail(fails and not is_done, verb, key)
        return fails

    def _fail(self, fails: bool, verb: str, key: str) -> None:  # noqa: FBT001
        if fails:
            self.failed += 1
            message = f"{verb} of {key} failed"
            raise StoreUnavailableError(message)


class OverwritingStore(MemoryStore):
    """A server that ignores the condition of a create, as some servers do."""

    async def create(self, key: str, data: bytes) -> bool:
        await self.put(key, data)
        return True


def refuse(verb: str, key: str) -> None:
    """Always raise StoreError."""
    message = f"{verb} of {key} failed"
    raise StoreError(message)


class RacingStore(MemoryStore):
    """A server that checks existence before it writes, not atomically: concurrent creates are all accepted."""

    async def create(self, key: str, data: bytes) -> bool:
        is_new = key not in self.objects
        await asyncio.sleep(0)
        if is_new:
            await self.put(key, data)
        return is_new


class ForgetfulStore(MemoryStore):
    """A server that refuses concurrent creates, and accepts a later one without writing it."""

    creates: int = 0

    async def create(self, key: str, data: bytes) -> bool:
        self.creates += 1
        return await super().create(key, data) or self.creates == 5

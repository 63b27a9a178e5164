"""A store in memory, which fails when a test says so."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from connectors.store.object_store import StoreError


@dataclass
class MemoryStore:
    """Objects in a dictionary; `failure` may raise, or return, before each call and its key."""

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


class OverwritingStore(MemoryStore):
    """A server that ignores the condition of a create, as some do."""

    async def create(self, key: str, data: bytes) -> bool:
        await self.put(key, data)
        return True


def refuse(verb: str, key: str) -> None:
    """Fail always."""
    message = f"{verb} of {key} failed"
    raise StoreError(message)

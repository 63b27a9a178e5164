"""A session without a network that returns a fixed response and records the addresses of requests."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from multidict import CIMultiDict

from tests.api.server import Reply

PAGE = b'{"items":[],"next_cursor":null}'


@dataclass(frozen=True)
class Answer:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = PAGE


@dataclass
class Recorder:
    """Returns the same response, or raises the same error, for every request, in place of aiohttp's session."""

    answer: Answer | Exception = field(default_factory=Answer)
    asked: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def get(self, url: str, **_: object) -> AsyncIterator[Reply]:
        await asyncio.sleep(0)
        self.asked.append(url)
        if isinstance(self.answer, Exception):
            raise self.answer
        yield Reply(self.answer.status, CIMultiDict(self.answer.headers), self.answer.body)

    async def close(self) -> None:
        pass


def envelope(message: str, code: str = "api_unauthorized", **more: object) -> bytes:
    return json.dumps({"error": {"code": code, "message": message, **more}}).encode()

"""An HTTP transport without a network that returns a fixed response and records the requests."""

import asyncio
import json
from dataclasses import dataclass, field

import httpx

PAGE = b'{"items":[],"next_cursor":null}'


@dataclass(frozen=True)
class Answer:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = PAGE


@dataclass
class Recorder(httpx.AsyncBaseTransport):
    """Returns the same response, or raises the same error, for every request."""

    answer: Answer | Exception = field(default_factory=Answer)
    asked: list[httpx.Request] = field(default_factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        body = httpx.ByteStream(self.answer.body)
        return httpx.Response(self.answer.status, headers=self.answer.headers, stream=body)


def envelope(message: str, code: str = "api_unauthorized", **more: object) -> bytes:
    return json.dumps({"error": {"code": code, "message": message, **more}}).encode()

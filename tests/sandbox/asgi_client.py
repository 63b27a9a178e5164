"""An ASGI client for the sandbox in this process, which can send requests that no HTTP client would."""

import asyncio
import json
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.keys import DEMO_KEY

ACCOUNTS = "/api/v1/accounts"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 - JSON is anything
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json()["error"]["code"])


@dataclass
class Asker:
    sandbox: Sandbox

    def raw(
        self,
        path: str,
        query: bytes = b"",
        *,
        headers: list[tuple[bytes, bytes]] | None = None,
        body: list[bytes] | None = None,
        method: str = "GET",
    ) -> Answer:
        chunks = body or [b""]
        incoming = [
            {"type": "http.request", "body": chunk, "more_body": n + 1 < len(chunks)} for n, chunk in enumerate(chunks)
        ]
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            if not incoming:
                await asyncio.Event().wait()
            return incoming.pop(0)

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "headers": headers or [],
        }
        asyncio.run(self._run(scope, receive, send))
        fields = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], fields, b"".join(m.get("body", b"") for m in sent[1:]))

    async def _run(self, *channel: Any) -> None:  # noqa: ANN401
        await self.sandbox(*channel)

    def get(self, path: str = ACCOUNTS, *, key: str | None = DEMO_KEY, **query: object) -> Answer:
        headers = [] if key is None else [(b"authorization", f"Bearer {key}".encode())]
        asked = {name: value for name, value in query.items() if value is not None}
        return self.raw(path, urlencode(asked).encode(), headers=headers)

    def media(self, account_id: str, surface: str | None = "posts", *, key: str = DEMO_KEY, **query: object) -> Answer:
        return self.get(f"{ACCOUNTS}/{account_id}/media", key=key, surface=surface, **query)

    def send_body(self, body: bytes, content_type: str = "application/json", path: str = ACCOUNTS) -> Answer:
        headers = [
            (b"authorization", f"Bearer {DEMO_KEY}".encode()),
            (b"content-length", str(len(body)).encode()),
            (b"content-type", content_type.encode()),
        ]
        return self.raw(path, b"", headers=headers, body=[body])

    def pages(self, path: str = ACCOUNTS, *, key: str = DEMO_KEY, **query: object) -> Iterator[Any]:
        cursor = None
        while True:
            page = self.get(path, key=key, cursor=cursor, **query).json()
            yield page
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def scan(self, path: str = ACCOUNTS, *, key: str = DEMO_KEY, **query: object) -> list[Any]:
        return [item for page in self.pages(path, key=key, **query) for item in page["items"]]

    def scan_media(self, account_id: str, surface: str = "posts", *, limit: int | None = None) -> list[Any]:
        return self.scan(f"{ACCOUNTS}/{account_id}/media", surface=surface, limit=limit)

    def account_id(self, position: int = 0) -> str:
        return next(
            a.id for a in self.sandbox.catalogue.accounts(self.sandbox.day, (position,)) if a.position == position
        )

    def control(self, method: str, path: str, document: object = None) -> Answer:
        body = b"" if document is None else json.dumps(document).encode()
        path, _, query = path.partition("?")
        return self.raw(f"/_sandbox/{path}", query.encode(), method=method, body=[body])

"""An ASGI client for the sandbox in this process, which can send requests that no HTTP client would."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.requests import DEMO_KEY
from tests.api.transport import Header, call

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
        """The error code; empty for a page."""
        return "" if self.status == 200 else str(self.json()["error"]["code"])


@dataclass
class Asker:
    sandbox: Sandbox

    def raw(
        self,
        path: str,
        query: bytes = b"",
        *,
        key: str | None = DEMO_KEY,
        headers: Sequence[Header] = (),
        body: Sequence[bytes] = (b"",),
        method: str = "GET",
    ) -> Answer:
        """Send a request; `body` is sent in these pieces."""
        allowed = [] if key is None else [(b"authorization", f"Bearer {key}".encode())]
        asked = call(self.sandbox, path.encode(), query, [*allowed, *headers], body=body, method=method)
        return Answer(*asyncio.run(asked))

    def get(self, path: str = ACCOUNTS, *, key: str | None = DEMO_KEY, **query: object) -> Answer:
        asked = {name: value for name, value in query.items() if value is not None}
        return self.raw(path, urlencode(asked).encode(), key=key)

    def media(self, account_id: str, surface: str | None = "posts", *, key: str = DEMO_KEY, **query: object) -> Answer:
        return self.get(f"{ACCOUNTS}/{account_id}/media", key=key, surface=surface, **query)

    def scan(self, *, key: str = DEMO_KEY) -> list[Any]:
        """Return all accounts of a key."""
        page = self.get(key=key).json()
        items = page["items"]
        while page["next_cursor"] is not None:
            page = self.get(key=key, cursor=page["next_cursor"]).json()
            items += page["items"]
        return list(items)

    def account_id(self, position: int = 0) -> str:
        return self.sandbox.catalogue.draw.account_id(position)

    def control(self, method: str, path: str, document: object = None) -> Answer:
        body = b"" if document is None else json.dumps(document).encode()
        return self.raw(f"/_sandbox/{path}", method=method, body=[body])

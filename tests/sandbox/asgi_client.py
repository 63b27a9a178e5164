"""An ASGI client for the sandbox in this process, which can send requests that no HTTP client would."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.requests import DEMO_KEY
from tests.api.server import call

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
        self, path: str, query: bytes = b"", *, key: str = DEMO_KEY, body: bytes = b"", method: str = "GET"
    ) -> Answer:
        headers = [(b"authorization", f"Bearer {key}".encode())]
        return Answer(*asyncio.run(call(self.sandbox, path.encode(), query, headers, body=body, method=method)))

    def get(self, path: str = ACCOUNTS, **query: object) -> Answer:
        return self.raw(path, urlencode(query).encode())

    def media(self, account_id: str, surface: str = "posts", **query: object) -> Answer:
        return self.get(f"{ACCOUNTS}/{account_id}/media", surface=surface, **query)

    def account_id(self, position: int = 0) -> str:
        return self.sandbox.catalogue.draw.account_id(position)

    def control(self, method: str, path: str, document: object) -> Answer:
        return self.raw(f"/_sandbox/{path}", method=method, body=json.dumps(document).encode())

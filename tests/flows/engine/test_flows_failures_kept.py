"""A run keeps only facts about a failed request, not the exception or the response."""

import gc
import json
import weakref
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from connectors.source.client import ApiClient
from connectors.source.endpoints import ApiRequest, Response
from connectors.source.errors import ApiError
from connectors.warehouse.merge.run_counts import MergeStats
from flows.engine import steps
from flows.engine.pipeline import run_sync
from models.runs import OutcomeKind
from tests.flows.fake_api import FakeApi, open_run_resources, request, uuid

pytestmark = pytest.mark.anyio
ACCOUNTS = 40
REFUSALS = (("rate_limited", 429), ("api_forbidden", 403), ("api_internal_error", 500), ("http_413", 413))


@dataclass
class Refusing(httpx.AsyncBaseTransport):
    """A fake API that lists accounts and refuses the media of each with one of four errors."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.split("/")
        if len(path) == 4:
            first = int(request.url.params.get("cursor", "1"))
            last = min(first + 49, ACCOUNTS)
            items = [
                {"id": uuid(n), "ig_username": f"u{n}", "public_id": f"p{n:012d}", "status": "active"}
                for n in range(first, last + 1)
            ]
            cursor = str(last + 1) if last < ACCOUNTS else None
            return httpx.Response(200, json={"items": items, "next_cursor": cursor})
        code, status = REFUSALS[int(path[4][-12:]) % len(REFUSALS)]
        body = {"error": {"code": code, "message": "No."}} if status != 413 else {"detail": "x" * 9000}
        return httpx.Response(status, headers={"retry-after": "9000"}, content=json.dumps(body).encode())


@dataclass
class Watched:
    """Sends requests with a client and keeps weak references to the exceptions."""

    client: ApiClient
    raised: list["weakref.ref[ApiError]"] = field(default_factory=list)

    async def send(self, request: ApiRequest) -> Response:
        try:
            return await self.client.send(request)
        except ApiError as error:
            self.raised.append(weakref.ref(error))
            raise

    @property
    def kept(self) -> int:
        return sum(one() is not None for one in self.raised)


async def test_no_exception_of_a_failed_partition_is_kept_until_the_end(tmp_path: Path) -> None:
    service = FakeApi()
    kept: list[int] = []
    client = ApiClient("https://api.example", SecretStr("k" * 20), clock=service.clock, transport=Refusing())
    watched = Watched(client)

    async def merge(run_id: str) -> MergeStats:
        kept.append(watched.kept)
        return await steps.merge(run_id)

    async with open_run_resources(tmp_path, service, send=watched.send, page_size=50) as resources:
        gc.collect()
        gc.disable()
        try:
            report = await run_sync(request(tmp_path), resources, steps=steps.Steps(merge=merge))
        finally:
            gc.enable()
    assert report.outcomes[OutcomeKind.DEFERRED] == ACCOUNTS
    assert report.outcomes[OutcomeKind.DENIED] == report.outcomes[OutcomeKind.FAILED] == ACCOUNTS // 2
    assert len(watched.raised) > ACCOUNTS
    assert kept == [0]

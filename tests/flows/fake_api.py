"""A fake API whose accounts, posts and errors a test chooses, and the resources to run a sync against it."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import duckdb

from connectors.source.endpoints import ApiRequest, Response, read_response
from flows.engine.concurrency import Slots
from flows.engine.run import RunResources
from flows.engine.run_request import RunRequest
from flows.engine.warehouse import Warehouse, open_warehouse
from flows.pipeline import run_sync
from flows.reporting.run_report import RunReport
from models.schema.mapping import Mapping
from models.schema.mapping_built_in import BUILT_IN
from tests.clocks import START, VirtualClock

# Runs at the same instant of a virtual clock have different ids.
_IDS = count(1)

CORRELATION_ID = "0123456789ABCDEFGHJKMNPQRS"


Records = list[dict[str, Any]]


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


@dataclass(frozen=True)
class Refusal:
    """An error of API 7."""

    status: int
    code: str
    retry_after: int | None = None


@dataclass
class FakeApi:
    """Accounts 1 to `accounts` with `posts` posts each and no stories; `failure` returns the error of a request.

    `change_accounts` and `change_posts` return what is listed instead of all accounts, and of the posts of an account.
    """

    accounts: int = 3
    posts: int = 3
    expired: frozenset[int] = frozenset()
    failure: Callable[[ApiRequest], Refusal | BaseException | None] = lambda _: None
    change_accounts: Callable[[Records], Records] = list
    change_posts: Callable[[Records], Records] = list
    requests: list[ApiRequest] = field(default_factory=list)
    clock: VirtualClock = field(default_factory=VirtualClock)

    async def send(self, request: ApiRequest) -> Response:
        self.requests.append(request)
        await asyncio.sleep(0)
        failure = self.failure(request)
        if isinstance(failure, BaseException):
            raise failure
        headers = {"x-correlation-id": CORRELATION_ID}
        if failure is None:
            return read_response(request, 200, headers, self._page(request), now=self.clock.now())
        if failure.retry_after is not None:
            headers["retry-after"] = str(failure.retry_after)
        body = json.dumps({"error": {"code": failure.code, "message": "No."}}).encode()
        return read_response(request, failure.status, headers, body, now=self.clock.now())

    def _page(self, request: ApiRequest) -> bytes:
        params = dict(request.params)
        begin, limit = int(params.get("cursor", "c0")[1:]), int(params["limit"])
        items = self._items(request, params)
        end = begin + limit
        cursor = f"c{end}" if end < len(items) else None
        return json.dumps({"items": items[begin:end], "next_cursor": cursor}).encode()

    def _items(self, request: ApiRequest, params: dict[str, str]) -> Records:
        if request.operation == "accounts.list":
            accounts = [
                {
                    "id": uuid(number),
                    "ig_username": f"user_{number}",
                    "public_id": f"p{number:012d}",
                    "status": "token_expired" if number in self.expired else "active",
                }
                for number in range(1, self.accounts + 1)
            ]
            return self.change_accounts(accounts)
        if params["surface"] == "stories":
            return []
        posts = range(self.posts)
        return self.change_posts([{"id": f"{request.scope[-3:]}-{number}", "caption": "a post"} for number in posts])


@dataclass
class RejectedApi(FakeApi):
    """A fake API of 4 stories per account, of whose records the first ones have no id that gramhouse knows.

    `rejected` is how many, of a request.
    """

    rejected: Callable[[ApiRequest], int] = lambda _: 0

    def _items(self, request: ApiRequest, params: dict[str, str]) -> list[dict[str, Any]]:
        items = super()._items(request, params)
        if params.get("surface") == "stories":
            items = [{"id": f"story-{request.scope[-3:]}-{number}"} for number in range(4)]
        count = self.rejected(request)
        return [{**item, "uid": item["id"], "id": None} for item in items[:count]] + items[count:]


def account_of(request: ApiRequest) -> int | None:
    return int(request.scope[-12:]) if request.operation == "accounts.media.list" else None


def cursor_of(request: ApiRequest) -> str | None:
    return dict(request.params).get("cursor")


def is_posts(request: ApiRequest, account: int) -> bool:
    return account_of(request) == account and dict(request.params)["surface"] == "posts"


def request(folder: Path) -> RunRequest:
    return RunRequest(folder / "analytics.duckdb", timedelta(hours=12), "test", page_size=2, max_wait=100.0)


def resources_with(service: FakeApi, warehouse: Warehouse, **changes: Any) -> RunResources:  # noqa: ANN401 - fields of RunResources
    resources: dict[str, Any] = {
        "send": service.send,
        "warehouse": warehouse,
        "clock": service.clock,
        "random": lambda: 0.5,
        "new_id": lambda: f"{service.clock.passed:.0f}-{next(_IDS)}-{id(service)}",
        "slots": Slots(4),
    }
    return RunResources(**(resources | changes))


@asynccontextmanager
async def scanning(resources: RunResources) -> AsyncIterator[RunResources]:
    """Yield resources with which a run scans in this process; see the fixture `in_tasks`."""
    yield resources


@asynccontextmanager
async def open_run_resources(
    folder: Path,
    service: FakeApi,
    mapping: Mapping = BUILT_IN,
    **changes: Any,  # noqa: ANN401 - fields of RunResources
) -> AsyncIterator[RunResources]:
    """Open a real warehouse in a folder; yield the resources of a run on it."""
    async with (
        open_warehouse(folder / "warehouse.duckdb", "a test", now=START, mapping=mapping) as warehouse,
        scanning(resources_with(service, warehouse, **changes)) as resources,
    ):
        yield resources


async def rows(resources: RunResources, sql: str) -> list[tuple[Any, ...]]:
    return await resources.warehouse.write(lambda c: c.db.execute(sql).fetchall())


async def synced(folder: Path, service: FakeApi, **changes: Any) -> RunReport:  # noqa: ANN401 - fields of RunRequest
    """Run a sync on the warehouse in a folder."""
    async with open_run_resources(folder, service, mapping=changes.get("mapping", BUILT_IN)) as resources:
        return await run_sync(replace(request(folder), **changes), resources)


def stored(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """Query the warehouse in a folder, which no run has open."""
    with duckdb.connect(folder / "warehouse.duckdb", read_only=True) as db:
        db.execute("SET TimeZone = 'UTC'")
        return db.execute(query).fetchall()


def stored_state(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """Query the state in a folder."""
    with closing(sqlite3.connect(folder / "warehouse.duckdb.state.sqlite")) as db:
        return db.execute(query).fetchall()

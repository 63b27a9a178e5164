"""A fake API without network on a simulated clock: every account publishes two posts a day, newest first.

The counts of a post change for 28 days. For scenarios with many days, whose runs are in the same process.
"""

import asyncio
import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from urllib.parse import parse_qsl

from connectors.source.messages import ApiRequest, Response, read_response
from flows.config.run_request import RunRequest
from flows.config.settings import Settings
from flows.engine.resources import RunResources
from flows.engine.warehouse import open_warehouse
from flows.pipeline import run_sync
from flows.reporting.run_report import RunReport
from models.checkpoint import SyncMode

PER_DAY = 2
START = datetime(2026, 1, 1, 2, 15, tzinfo=UTC)
_COUNTS_CHANGE_FOR = 28
_CAPTION = "A caption of the usual length, with a few words on what is to be seen here. " * 3


class ShiftedClock:
    """The system clock, shifted by a number of days."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.days = 0

    def now(self) -> datetime:
        """Return the simulated time."""
        return START + timedelta(days=self.days, seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return the seconds since the start, without the shift."""
        return time.monotonic() - self._began

    async def sleep(self, seconds: float) -> None:
        """Sleep for real."""
        await asyncio.sleep(seconds)


@dataclass
class DatedApi:
    """Accounts with `posts` posts each on day 0, and two more each day."""

    accounts: int
    posts: int
    clock: ShiftedClock
    requests: int = 0

    def likes(self, post: int) -> int:
        """Return the like count of a post, which grows for 28 days."""
        age = (self.posts + PER_DAY * self.clock.days - 1 - post) // PER_DAY
        return 3 * min(age, _COUNTS_CHANGE_FOR) + post % 7

    def published_at(self, post: int) -> datetime:
        """Return when a post was published."""
        return START - timedelta(hours=1) + timedelta(hours=24 / PER_DAY * (post + 1 - self.posts))

    async def send(self, request: ApiRequest) -> Response:
        """Return the response to a request."""
        self.requests += 1
        params = dict(parse_qsl(request.target.partition("?")[2]))
        begin, limit = int(params.get("cursor", "0")), int(params["limit"])
        if request.operation == "accounts.list":
            items, total = self._accounts(begin, limit), self.accounts
        elif params["surface"] == "stories":
            items, total = [], 0
        else:
            total = self.posts + PER_DAY * self.clock.days
            account = int(request.scope[-12:])
            items = [self._post(account, total - 1 - index) for index in range(begin, min(begin + limit, total))]
        cursor = str(begin + limit) if begin + limit < total else None
        body = json.dumps({"items": items, "next_cursor": cursor}).encode()
        headers = {"x-correlation-id": "01HZZZZZZZZZZZZZZZZZZZZZZZ"}
        return read_response(request, 200, headers, body, now=self.clock.now())

    def _accounts(self, begin: int, limit: int) -> list[dict[str, object]]:
        return [
            {
                "id": account_uuid(number),
                "ig_username": f"account_{number}",
                "public_id": f"p{number:012d}",
                "status": "active",
            }
            for number in range(begin, min(begin + limit, self.accounts))
        ]

    def _post(self, account: int, post: int) -> dict[str, object]:
        media_id = f"{account:06d}{post:08d}"
        return {
            "id": media_id,
            "caption": _CAPTION,
            "media_type": "IMAGE",
            "permalink": f"https://example.com/p/{media_id}",
            "media_url": f"https://cdn.example.com/{media_id}.jpg",
            "timestamp": self.published_at(post).isoformat(),
            "like_count": self.likes(post),
            "comments_count": post % 11,
        }


def account_uuid(number: int) -> str:
    """Return the id of an account."""
    return f"00000000-0000-4000-8000-{number:012d}"


async def run_day(folder: Path, api: DatedApi, mode: SyncMode, every: timedelta) -> RunReport:
    """Sync into the warehouse in the folder, and publish; full scans are due after `every`."""
    ids = count()
    files = {"warehouse": folder / "warehouse.duckdb", "snapshot": str(folder / "analytics.duckdb")}
    request = RunRequest(
        Settings.model_validate({**files, "sync_mode": mode, "full_refresh_every": min(every.days, 366)})
    )
    async with open_warehouse(request.settings, "a benchmark", api.clock) as warehouse:
        resources = RunResources(
            send=api.send,
            warehouse=warehouse,
            clock=api.clock,
            random=lambda: 0.5,
            new_id=lambda: f"{api.clock.days}-{next(ids)}",
        )
        return await run_sync(request, resources)

"""Daily incremental syncs compared with daily full scans: requests, seconds, and posts missed.

    python -m benchmarks.sync.incremental [--accounts 100] [--posts 500] [--days 30] [--full-days 2]

Each account publishes two posts a day, and the counts of a post change for 28 days. The scenario simulates the clock,
so all runs are in this process, with a fake API and no network: the requests are exact, the seconds only useful as a
ratio. After every day the snapshot is compared with the fake API: it must contain the posts published after
`freshness.covered_from`, with their current counts; after a full refresh, all posts.
"""

import argparse
import asyncio
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import duckdb

from benchmarks.measuring.machine import describe_machine
from benchmarks.measuring.results import RESULTS, size_name
from connectors.source.endpoints import ApiRequest, Response, read_response
from connectors.warehouse.warehouse import open_warehouse
from flows.engine.concurrency import Slots
from flows.engine.pipeline import run_sync
from flows.engine.run_context import RunResources
from flows.engine.run_request import RunRequest
from models.incremental import SyncMode

_START = datetime(2026, 1, 1, 2, 15, tzinfo=UTC)
_PER_DAY = 2
_COUNTS_CHANGE_FOR = 28
_CAPTION = "A caption of the usual length, with a few words on what is to be seen here. " * 3


class _Clock:
    """The system clock, shifted by a number of days."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.days = 0

    def now(self) -> datetime:
        return _START + timedelta(days=self.days, seconds=self.monotonic())

    def monotonic(self) -> float:
        return time.monotonic() - self._began

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class _FakeApi:
    """Accounts with `posts` posts each on day 0, and two more each day."""

    accounts: int
    posts: int
    clock: _Clock
    requests: int = 0

    def likes(self, post: int) -> int:
        """Return the like count of a post, which grows for 28 days."""
        age = (self.posts + _PER_DAY * self.clock.days - 1 - post) // _PER_DAY
        return 3 * min(age, _COUNTS_CHANGE_FOR) + post % 7

    def published_at(self, post: int) -> datetime:
        """Return when a post was published."""
        return _START - timedelta(hours=1) + timedelta(hours=24 / _PER_DAY * (post + 1 - self.posts))

    async def send(self, request: ApiRequest) -> Response:
        """Return the response to a request."""
        self.requests += 1
        params = dict(request.params)
        begin, limit = int(params.get("cursor", "0")), int(params["limit"])
        if request.operation == "accounts.list":
            items, total = self._accounts(begin, limit), self.accounts
        elif params["surface"] == "stories":
            items, total = [], 0
        else:
            total = self.posts + _PER_DAY * self.clock.days
            account = int(request.scope[-12:])
            items = [self._post(account, total - 1 - index) for index in range(begin, min(begin + limit, total))]
        cursor = str(begin + limit) if begin + limit < total else None
        body = json.dumps({"items": items, "next_cursor": cursor}).encode()
        headers = {"x-correlation-id": "01HZZZZZZZZZZZZZZZZZZZZZZZ"}
        return read_response(request, 200, headers, body, now=self.clock.now())

    def _accounts(self, begin: int, limit: int) -> list[dict[str, object]]:
        return [
            {
                "id": _uuid(number),
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


@dataclass(frozen=True)
class Day:
    """One run: all requests, requests of posts, full scans of posts, seconds, and posts missed."""

    requests: int
    of_posts: int
    full_scans: int
    seconds: float
    missed: int


def _uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def _missed(snapshot: Path, api: _FakeApi) -> int:
    """Return how many posts are missing or have outdated counts; of the posts after `covered_from`, where it is set."""
    total = api.posts + _PER_DAY * api.clock.days
    with duckdb.connect(str(snapshot), read_only=True) as db:
        db.execute("CREATE TEMP TABLE truth (post BIGINT, likes BIGINT, published_at TIMESTAMPTZ)")
        rows = [(post, api.likes(post), api.published_at(post)) for post in range(total)]
        db.executemany("INSERT INTO truth VALUES (?, ?, ?)", rows)
        [(missed,)] = db.execute(
            """
SELECT count(*) FROM freshness AS f CROSS JOIN truth AS t
LEFT JOIN media AS m
    ON m.account_id = f.account_id AND m.media_id = right(f.account_id, 6) || lpad(t.post::VARCHAR, 8, '0')
WHERE f.surface = 'posts' AND coalesce(t.published_at > f.covered_from, true)
  AND (m.like_count IS DISTINCT FROM t.likes OR m.removed_at IS NOT NULL)
"""
        ).fetchall()
    return int(missed)


async def _day(folder: Path, api: _FakeApi, mode: SyncMode, every: timedelta) -> Day:
    ids = count()
    requests_before, began = api.requests, time.perf_counter()
    request = RunRequest(folder / "analytics.duckdb", timedelta(hours=12), "bench", mode=mode, full_refresh_every=every)
    async with open_warehouse(folder / "warehouse.duckdb", "a benchmark", now=api.clock.now()) as warehouse:
        resources = RunResources(
            send=api.send,
            warehouse=warehouse,
            clock=api.clock,
            random=lambda: 0.5,
            new_id=lambda: f"{api.clock.days}-{next(ids)}",
            slots=Slots.for_requests(16),
        )
        report = await run_sync(request, resources)
    seconds = time.perf_counter() - began
    with duckdb.connect(str(request.snapshot), read_only=True) as db:
        [(of_posts, full)] = db.execute(
            "SELECT sum(pages), count(*) FILTER (outcome = 'complete') FROM run_outcomes"
            f" WHERE run_id = '{report.run_id}' AND surface = 'posts'"
        ).fetchall()
    missed = _missed(request.snapshot, api)
    return Day(api.requests - requests_before, int(of_posts), int(full), seconds, missed)


async def measure(
    accounts: int, posts: int, days: int, full_days: int, every: int, folder: Path
) -> dict[str, list[Day]]:
    """Return the days of each mode; day 0 is the initial sync."""
    found: dict[str, list[Day]] = {}
    modes: tuple[tuple[SyncMode, int], ...] = (("full_refresh", full_days), ("incremental", days))
    for mode, mode_days in modes:
        api = _FakeApi(accounts, posts, _Clock())
        mode_folder = folder / mode
        mode_folder.mkdir()
        found[mode] = []
        for day in range(mode_days + 1):
            result = await _day(mode_folder, api, mode, timedelta(days=every))
            found[mode].append(result)
            print(f"{mode} day {day}: {result}", flush=True)
            api.clock.days += 1
        if mode == "incremental":
            await _day(mode_folder, api, "full_refresh", timedelta(days=every))
            missed = _missed(mode_folder / "analytics.duckdb", api)
            print(f"after a full refresh: {missed} posts differ", flush=True)
            if missed:
                raise SystemExit(1)
    return found


def main() -> None:
    """Run the benchmark and save the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("accounts", 100), ("posts", 500), ("days", 29), ("full-days", 2), ("every", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="incremental-") as name:
        found = asyncio.run(measure(args.accounts, args.posts, args.days, args.full_days, args.every, Path(name)))
    full, recent = found["full_refresh"][1:], found["incremental"][1:]
    figures = {
        "requests_a_day": sum(day.requests for day in recent) / len(recent),
        "requests_of_posts_a_day": sum(day.of_posts for day in recent) / len(recent),
        "requests_a_full_day": sum(day.requests for day in full) / len(full),
        "seconds_a_day": sum(day.seconds for day in recent) / len(recent),
        "seconds_a_full_day": sum(day.seconds for day in full) / len(full),
        "missed": sum(day.missed for day in recent),
    }
    result = {
        "name": f"incremental-{size_name(args.accounts * args.posts)}",
        "what": f"{args.accounts:,} accounts x {args.posts:,} posts, {_PER_DAY} new a day, {len(recent)} days",
        "size": {"accounts": args.accounts, "posts": args.posts, "days": len(recent), "every": args.every},
        "machine": describe_machine(),
        "days": {mode: [asdict(day) for day in days] for mode, days in found.items()},
        "figures": figures,
    }
    args.results.mkdir(parents=True, exist_ok=True)
    path = args.results / f"{result['name']}.json"
    path.write_text(json.dumps(result, indent=1, default=str) + "\n", encoding="utf-8")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()

"""Daily incremental syncs compared with daily full scans: requests, seconds, and posts missed.

    python -m benchmarks.sync.incremental [--accounts 100] [--posts 500] [--days 30] [--full-days 2]
    python -m benchmarks.sync.incremental --fresh-within posts=7d,stories=6h [--accounts 100] [--days 14]

Each account publishes two posts a day, and the counts of a post change for 28 days. The scenario simulates the clock,
so all runs are in this process, with a fake API and no network: the requests are exact, the seconds only useful as a
ratio. After every day the snapshot is compared with the fake API: it must contain the posts published after
`freshness.covered_from`, with their current counts; after a full refresh, all posts.

With --fresh-within, see due.py.
"""

import argparse
import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import duckdb

from benchmarks.api.dated_api import PER_DAY, DatedApi, ShiftedClock, run_day
from benchmarks.measuring.options import create_parser, temporary_folder
from benchmarks.measuring.results import Result, log, save_result, size_name
from benchmarks.measuring.samples import Sample
from benchmarks.sync.due import compare
from models.checkpoint import SyncMode


@dataclass(frozen=True)
class Day:
    """One run: all requests, requests of posts, full scans of posts, seconds, and posts missed."""

    requests: int
    of_posts: int
    full_scans: int
    seconds: float
    missed: int


def _missed(snapshot: Path, api: DatedApi) -> int:
    """Return how many posts are missing or have outdated counts; of the posts after `covered_from`, where it is set."""
    total = api.posts + PER_DAY * api.clock.days
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


async def _day(folder: Path, api: DatedApi, mode: SyncMode, every: timedelta) -> Day:
    requests_before, began = api.requests, time.perf_counter()
    report = await run_day(folder, api, mode, every)
    seconds = time.perf_counter() - began
    with duckdb.connect(str(report.snapshot), read_only=True) as db:
        [(of_posts, full)] = db.execute(
            "SELECT sum(pages), count(*) FILTER (outcome = 'complete') FROM run_outcomes"
            f" WHERE run_id = '{report.run_id}' AND surface = 'posts'"
        ).fetchall()
    missed = _missed(report.snapshot, api)
    return Day(api.requests - requests_before, int(of_posts), int(full), seconds, missed)


async def measure(args: argparse.Namespace, folder: Path) -> dict[str, list[Day]]:
    """Return the days of each mode; day 0 is the initial sync."""
    found: dict[str, list[Day]] = {}
    every = timedelta(days=args.every)
    modes: tuple[tuple[SyncMode, int], ...] = (("full_refresh", args.full_days), ("incremental", args.days))
    for mode, mode_days in modes:
        api = DatedApi(args.accounts, args.posts, ShiftedClock())
        mode_folder = folder / mode
        mode_folder.mkdir()
        found[mode] = []
        for day in range(mode_days + 1):
            result = await _day(mode_folder, api, mode, every)
            found[mode].append(result)
            log(f"{mode} day {day}: {result}")
            api.clock.days += 1
        if mode == "incremental" and (missed := (await _day(mode_folder, api, "full_refresh", every)).missed):
            raise SystemExit(f"after a full refresh: {missed} posts differ")
    return found


def main() -> None:
    """Run the benchmark and save the result."""
    parser = create_parser(__doc__, accounts=100, posts=500)
    for name, default in (("days", 29), ("full-days", 2), ("every", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--fresh-within", metavar="GOALS", help="compare `sync --due` with these goals instead")
    args = parser.parse_args()
    if args.fresh_within:
        compare(args)
        return
    with temporary_folder(args) as folder:
        found = asyncio.run(measure(args, folder))
    full, recent = found["full_refresh"][1:], found["incremental"][1:]
    figures = {
        "requests_a_day": sum(day.requests for day in recent) / len(recent),
        "requests_of_posts_a_day": sum(day.of_posts for day in recent) / len(recent),
        "requests_a_full_day": sum(day.requests for day in full) / len(full),
        "seconds_a_day": sum(day.seconds for day in recent) / len(recent),
        "seconds_a_full_day": sum(day.seconds for day in full) / len(full),
        "missed": sum(day.missed for day in recent),
    }
    name = f"incremental-{size_name(args.accounts * args.posts)}"
    description = f"{args.accounts:,} accounts x {args.posts:,} posts, {PER_DAY} new a day, {len(recent)} days"
    size = {"accounts": args.accounts, "posts": args.posts, "days": len(recent), "every": args.every}
    samples = {
        mode: [Sample(day.seconds, pages=day.requests) for day in days]
        for mode, days in (("full", full), ("incremental", recent))
    }
    save_result(Result(name, description, size, samples, figures), args.results)


if __name__ == "__main__":
    main()

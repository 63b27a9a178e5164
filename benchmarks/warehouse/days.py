"""A warehouse after many days of incremental syncs: its size, and how fast an account's last posts are found.

    python -m benchmarks.warehouse.days [--accounts 500] [--posts 2000] [--days 100]

Each day every account has two new posts, and the counts of its posts of the last 28 days have changed: 3 % of 2,000
posts. No full scan is due. The clock is simulated and there is no network, so all syncs are in this process; each one
publishes. Afterwards the size of the warehouse is compared with that of the compacted one.
"""

import argparse
import asyncio
import time
from datetime import timedelta
from functools import partial
from pathlib import Path

from benchmarks.api.dated_api import DatedApi, ShiftedClock, account_uuid, run_day
from benchmarks.candidates.jobs import RunFolder, gramhouse, measure_job
from benchmarks.measuring.options import create_parser, temporary_folder
from benchmarks.measuring.results import Result, log, save_result, size_name
from benchmarks.measuring.samples import Sample, median_sample
from benchmarks.warehouse.queries import LAST_POSTS, QUERIED_ACCOUNTS, execute, run_queries

_NO_FULL_SCANS = timedelta(days=3650)
_UNUSED_URL = "http://127.0.0.1:9"
_MB = 1024 * 1024


async def sync_days(folder: Path, api: DatedApi, days: int) -> list[Sample]:
    """Fill a warehouse, then sync it every day; return the seconds of each sync, the first one being the fill."""
    samples = []
    for day in range(days + 1):
        began = time.perf_counter()
        report = await run_day(folder, api, "incremental", _NO_FULL_SCANS)
        samples.append(Sample(time.perf_counter() - began, pages=report.pages))
        log(f"day {day}: {samples[-1].wall:.1f} s, {report.pages:,} pages, {report.media}")
        api.clock.days += 1
    return samples


def find_last_posts(snapshot: Path, accounts: int) -> Sample:
    """Return the median time of the query for an account's last 100 posts."""
    queried = [account_uuid(index * accounts // QUERIED_ACCOUNTS) for index in range(QUERIED_ACCOUNTS)]
    return run_queries(snapshot, {"last posts": [partial(execute, LAST_POSTS, [each]) for each in queried]})[
        "last posts"
    ]


def measure(args: argparse.Namespace, folder: Path) -> Result:
    """Run the days, then query and compact the warehouse."""
    run_folder = RunFolder(folder)
    api = DatedApi(args.accounts, args.posts, ShiftedClock())
    first, *daily = asyncio.run(sync_days(folder, api, args.days))
    size = run_folder.warehouse.stat().st_size
    samples = {
        "first sync": [first],
        "days": daily,
        "last posts": [find_last_posts(run_folder.snapshot, args.accounts) for _ in range(args.rounds)],
    }
    compact = gramhouse(_UNUSED_URL, run_folder, args.in_flight, "compact")
    samples["compact"] = [measure_job(compact)]
    compacted = run_folder.warehouse.stat().st_size
    measure_job(gramhouse(_UNUSED_URL, run_folder, args.in_flight, "publish"))
    samples["last posts, compacted"] = [find_last_posts(run_folder.snapshot, args.accounts) for _ in range(args.rounds)]
    figures = {
        "last_posts_ms": 1000 * median_sample(samples["last posts"]).wall,
        "last_posts_compacted_ms": 1000 * median_sample(samples["last posts, compacted"]).wall,
        "file_mb": size / _MB,
        "file_over_compacted": size / compacted,
        "last_days_over_first": median_sample(daily[-10:]).wall / median_sample(daily[:10]).wall,
    }
    items = args.accounts * args.posts
    dimensions = {"accounts": args.accounts, "posts": args.posts, "items": items, "days": args.days}
    return Result(f"days-{size_name(items)}", f"{items:,} items after {args.days} days", dimensions, samples, figures)


def main() -> None:
    """Run the benchmark and save the result."""
    parser = create_parser(__doc__, accounts=500, posts=2000)
    parser.add_argument("--days", type=int, default=100)
    args = parser.parse_args()
    with temporary_folder(args) as folder:
        save_result(measure(args, folder), args.results)


if __name__ == "__main__":
    main()

"""`sync --due` every hour compared with a nightly sync of everything and one of stories every six hours.

Run by `python -m benchmarks.sync.incremental --fresh-within posts=7d,stories=6h`. The accounts publish at rates of
their own (`api/rated_api.py`). All runs are incremental, in this process, on a clock of whole hours: the requests are
exact.
"""

import argparse
import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.api.dated_api import START
from benchmarks.api.rated_api import RatedApi
from benchmarks.measuring.options import temporary_folder
from benchmarks.measuring.results import Result, log, save_result
from benchmarks.measuring.samples import Sample
from flows.config.options import SyncOptions
from flows.config.run_request import RunRequest
from flows.config.settings import Settings
from flows.engine.resources import RunResources
from flows.engine.warehouse import open_warehouse
from flows.pipeline import run_sync
from models.selection import DAY, NothingChosen, read_goals

# What is asked for at each hour after the start, which is that of the nightly sync, at a quarter past two.
_NIGHTLY, _STORIES, _DUE = SyncOptions(), SyncOptions(surfaces=["stories"]), SyncOptions(due=True)


def _today(hour: int) -> SyncOptions | None:
    clock = (hour + START.hour) % 24
    return _NIGHTLY if clock == START.hour else _STORIES if clock % 6 == 0 else None


Schedule = Callable[[int], SyncOptions | None]
_SCHEDULES: Mapping[str, Schedule] = {"today": _today, "due": lambda _: _DUE}


async def _live(api: RatedApi, folder: Path, schedule: Schedule, days: int, fresh_within: str) -> dict[str, float]:
    """Make all runs of a schedule; return requests, their seconds, and how late what they saw was."""
    ids, began = count(), time.perf_counter()
    files = {"warehouse": folder / "warehouse.duckdb", "snapshot": str(folder / "analytics.duckdb")}
    settings = Settings(**files, sync_mode="incremental", fresh_within=fresh_within)
    wrong_ages = first = 0
    async with open_warehouse(settings, "a benchmark", api.clock) as warehouse:
        for api.clock.hours in range(24 * days + 1):
            if (options := schedule(api.clock.hours)) is None:
                continue
            new_id: Callable[[], str] = lambda: f"{next(ids)}"  # noqa: E731
            resources = RunResources(api.send, warehouse, api.clock, lambda: 0.5, new_id)
            try:
                await run_sync(RunRequest(settings, options), resources)
            except NothingChosen:
                continue
            first = first or api.requests
            if api.clock.hours % 24 == 0:
                wrong_ages += _count_wrong_ages(api, settings.snapshot_file())
                log(f"day {api.clock.hours // 24}: {api.requests - first} requests, {wrong_ages} wrong ages")
    found = _measure_delays(api, settings.snapshot_file(), days, read_goals(fresh_within)["posts"])
    found |= {"requests": api.requests - first, "seconds": time.perf_counter() - began, "wrong_ages": wrong_ages}
    return found


def _rows(snapshot: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(snapshot), read_only=True) as db:
        db.execute("SET TimeZone = 'UTC'")
        return db.execute(query).fetchall()


def _count_wrong_ages(api: RatedApi, snapshot: Path) -> int:
    """Return of how many accounts the snapshot has other posts than had been published at the time that it states."""
    stated = _rows(
        snapshot,
        "SELECT right(account_id, 12)::INT, greatest(complete_at, recent_at), count(m.media_id) FROM freshness"
        " LEFT JOIN media AS m USING (account_id, surface) WHERE surface = 'posts' GROUP BY ALL",
    )
    return sum(len(api.published[number].listed("posts", (at - START) / DAY)) != posts for number, at, posts in stated)


def _measure_delays(api: RatedApi, snapshot: Path, days: int, goal: timedelta) -> dict[str, float]:
    """Return how late posts and stories were seen that were published after the first sync."""
    seen = dict(_rows(snapshot, "SELECT media_id, first_seen_at FROM media"))
    end, delays, lost = START + days * DAY, [], 0
    for number, published in enumerate(api.published):
        for n, day in enumerate(published.posts):
            if day > 0:
                # What was not seen is at least so late.
                delays.append(seen.get(f"{number:06d}p{n:06d}", end) - START - day * DAY)
        lost += sum(
            f"{number:06d}s{n:06d}" not in seen for n, day in enumerate(published.stories) if 0 < day < days - 1
        )
    return {
        "posts": len(delays),
        "late_share": sum(delay >= DAY for delay in delays) / len(delays),
        "later_than_goal": sum(delay > goal for delay in delays),
        "stories_lost": lost,
    }


def compare(args: argparse.Namespace) -> None:
    """Run both schedules and save the result."""
    found = {}
    with temporary_folder(args) as folder:
        for name, schedule in _SCHEDULES.items():
            there = folder / name
            there.mkdir()
            api = RatedApi(args.accounts, args.days)
            found[name] = asyncio.run(_live(api, there, schedule, args.days, args.fresh_within))
            log(f"{name}: {found[name]}")
    due, today = found["due"], found["today"]
    figures = {
        **due,
        "requests_of_today": today["requests"],
        "requests_over_today": due["requests"] / today["requests"],
    }
    description = f"{args.accounts:,} accounts, rates that differ, {args.days} days, {args.fresh_within}"
    size = {"accounts": args.accounts, "days": args.days, "fresh_within": args.fresh_within}
    samples = {name: [Sample(each["seconds"], pages=int(each["requests"]))] for name, each in found.items()}
    save_result(Result(f"due-{args.accounts}", description, size, samples, figures), args.results)

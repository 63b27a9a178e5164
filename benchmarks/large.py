"""A nightly scan of the same accounts on warehouses of different sizes: what its merges cost.

    python -m benchmarks.large [--sizes 400 4000] [--posts 2500] [--scanned 40] [--rounds 3] --folder KEPT

Every round is the next day, in which one item in a hundred has changed and two are new, and scans the same few
accounts with `gramhouse backfill`. The rest of the warehouse is only there. The merges' seconds are measured
from inside (benchmarks.timed); `wall` of a sample is theirs. Publishing, which copies the file, is reported apart.
"""

import argparse
import json
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.beside import serving
from benchmarks.contenders import Home, gramhouse, report
from benchmarks.kept import copied, prepared
from benchmarks.options import options, scratch
from benchmarks.pages import account_id
from benchmarks.process import run
from benchmarks.results import Result, deliver, show, size_name
from benchmarks.samples import Sample, Samples, interleaved, middle, peak

if TYPE_CHECKING:
    from collections.abc import Callable


def spread(accounts: int, scanned: int) -> list[int]:
    """Choose the accounts to scan, all over the warehouse; no IO."""
    return [index * accounts // scanned for index in range(scanned)]


def figures(samples: Samples) -> dict[str, float]:
    """Return the ratios of the largest to the smallest; no IO."""
    names = list(samples)
    return {
        "merge_over_smallest": middle(samples[names[-1]]).wall / middle(samples[names[0]]).wall,
        "merge_seconds": middle(samples[names[-1]]).wall,
        "peak_mb": peak(samples[names[-1]]),
    }


def day(chosen: argparse.Namespace, accounts: int, home: Home, publishing: list[float], turn: int) -> Sample:
    """Scan the chosen accounts on the next day; return the sample, whose wall is the merges'."""
    scanned = spread(accounts, chosen.scanned)
    picked = [word for number in scanned for word in ("--account", account_id(number))]
    with serving(accounts, chosen.posts, day=turn + 1) as server:
        job = gramhouse(
            server.url,
            home,
            chosen.in_flight,
            "backfill",
            "--surface",
            "posts",
            *picked,
            module="benchmarks.timed",
        )
        ended = run(job.command, job.env, job.folder)
        pages = server.spent()
    message, watched = report(ended), json.loads(ended.errors.splitlines()[-1])
    show(f"{accounts:,} accounts: {message['items']:,} items scanned in {ended.wall:.1f} s, {watched}")
    publishing.append(watched["publish_seconds"])
    return Sample(watched["merge_seconds"], ended.cpu, ended.peak_mb, pages.requests, pages.cpu_seconds)


def main() -> None:
    """Measure, and say it."""
    wanted = options(__doc__)
    wanted.set_defaults(posts=2500, accounts=[400, 4000])
    wanted.add_argument("--sizes", type=int, nargs="+", dest="accounts", help="accounts of each warehouse")
    wanted.add_argument("--scanned", type=int, default=40, help="accounts scanned")
    chosen = wanted.parse_args()
    publishing: dict[int, list[float]] = {accounts: [] for accounts in chosen.accounts}
    entrants: dict[str, Callable[[int], Sample]] = {}
    with scratch(chosen) as folder:
        for accounts in chosen.accounts:
            kept = prepared(chosen.folder or folder, accounts, chosen.posts)
            home = copied(kept, folder / str(accounts))
            name = size_name(accounts * chosen.posts)
            entrants[name] = partial(day, chosen, accounts, home, publishing[accounts])
        samples = interleaved(entrants, chosen.rounds, show)
    found = figures(samples)
    items = chosen.scanned * chosen.posts
    size = {"accounts": chosen.accounts, "posts": chosen.posts, "scanned": items, "publish_seconds": publishing}
    what = f"merges of a day of {items:,} items, on warehouses of {' and '.join(samples)} (wall is the merges')"
    deliver(Result(f"large-{list(samples)[-1]}", what, size, samples, found), chosen.results)


if __name__ == "__main__":
    main()

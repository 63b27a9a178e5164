"""A daily scan of the same number of accounts in warehouses of different sizes: the cost of its merges.

    python -m benchmarks.warehouse.large [--sizes 400 4000] [--posts 2500] [--scanned 40] [--rounds 3] --folder KEEP

Every round is the next day, on which 1 % of the items have changed and 2 % are new, and scans a few accounts with
`gramhouse backfill`; the rest of the warehouse is not scanned. Merges are timed inside the process
(benchmarks.candidates.timed_cli), and `wall` of a sample is their time. Publishing, which copies the file, is reported
separately.
"""

import argparse
import json
import sqlite3
from contextlib import closing
from functools import partial

from benchmarks.api.server_process import start_server
from benchmarks.api.synthetic_api import account_id
from benchmarks.candidates.jobs import RunFolder, gramhouse, parse_report
from benchmarks.candidates.saved_warehouse import copy_to, load_or_create
from benchmarks.measuring.options import create_parser, temporary_folder
from benchmarks.measuring.process import run
from benchmarks.measuring.results import Result, log, save_result, size_name
from benchmarks.measuring.samples import Candidates, Sample, Samples, measure_interleaved, median_sample, peak_memory
from connectors.state.database import state_path


def spread(accounts: int, scanned: int) -> list[int]:
    """Return the accounts to scan, spread evenly over the warehouse; no IO."""
    return [index * accounts // scanned for index in range(scanned)]


def figures(samples: Samples) -> dict[str, float]:
    """Return the figures of the largest warehouse, and its ratio to the smallest; no IO."""
    names = list(samples)
    return {
        "merge_over_smallest": median_sample(samples[names[-1]]).wall / median_sample(samples[names[0]]).wall,
        "merge_seconds": median_sample(samples[names[-1]]).wall,
        "peak_mb": peak_memory(samples[names[-1]]),
    }


def unbind(run_folder: RunFolder) -> None:
    """Remove the API address from a warehouse: each day's server has another port, and backfill has no --rebind."""
    with closing(sqlite3.connect(state_path(run_folder.warehouse))) as state, state:
        state.execute("UPDATE identity SET base_url = NULL")


def scan_next_day(
    args: argparse.Namespace, accounts: int, run_folder: RunFolder, publish_seconds: list[float], round_number: int
) -> Sample:
    """Scan the selected accounts on the next day; `wall` of the sample is the time of the merges."""
    scanned = spread(accounts, args.scanned)
    unbind(run_folder)
    selected = [argument for number in scanned for argument in ("--account", account_id(number))]
    with start_server(accounts, args.posts, day=round_number + 1) as server:
        job = gramhouse(
            server.url,
            run_folder,
            args.in_flight,
            "backfill",
            "--surface",
            "posts",
            *selected,
            module="benchmarks.candidates.timed_cli",
        )
        result = run(job.command, job.env, job.folder)
        usage = server.usage()
    report, timings = parse_report(result), json.loads(result.stderr.splitlines()[-1])
    log(f"{accounts:,} accounts: {report['items']:,} items scanned in {result.wall:.1f} s, {timings}")
    publish_seconds.append(timings["publish_seconds"])
    return Sample(timings["merge_seconds"], result.cpu, result.peak_mb, usage.requests, usage.cpu_seconds)


def main() -> None:
    """Run the benchmark and save the result."""
    parser = create_parser(__doc__)
    parser.set_defaults(posts=2500, accounts=[400, 4000])
    parser.add_argument("--sizes", type=int, nargs="+", dest="accounts", help="accounts of each warehouse")
    parser.add_argument("--scanned", type=int, default=40, help="accounts scanned")
    args = parser.parse_args()
    publish_seconds: dict[int, list[float]] = {accounts: [] for accounts in args.accounts}
    candidates: Candidates = {}
    with temporary_folder(args) as folder:
        for accounts in args.accounts:
            saved = load_or_create(args.folder or folder, accounts, args.posts)
            run_folder = copy_to(saved, folder / str(accounts))
            name = size_name(accounts * args.posts)
            candidates[name] = partial(scan_next_day, args, accounts, run_folder, publish_seconds[accounts])
        samples = measure_interleaved(candidates, args.rounds, log)
    ratios = figures(samples)
    items = args.scanned * args.posts
    size = {"accounts": args.accounts, "posts": args.posts, "scanned": items, "publish_seconds": publish_seconds}
    description = f"merges of a day of {items:,} items, on warehouses of {' and '.join(samples)} (wall: merges only)"
    save_result(Result(f"large-{list(samples)[-1]}", description, size, samples, ratios), args.results)


if __name__ == "__main__":
    main()

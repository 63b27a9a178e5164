"""Simulates the scenarios of many seeds: `python -m tests.harness --seeds 200 --first 0 --jobs 2`."""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

from tests.harness.run_seed import run_seed


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate the seeds; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--days", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--without", nargs="*", default=(), help="what a failing seed did not need")
    parser.add_argument("--as-it-is", action="store_true", help="do not look for what a failing seed does not need")
    args = parser.parse_args(arguments)
    began = time.perf_counter()
    failed: list[int] = []
    done: list[Any] = []
    tasks: dict[Future[tuple[Any, str]], int] = {}
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        for seed in range(args.first, args.first + args.seeds):
            tasks[pool.submit(run_seed, seed, args.days, tuple(args.without), shrinks=not args.as_it_is)] = seed
        for task in as_completed(tasks):
            result, failure = task.result()
            done.append(result)
            sys.stderr.write(f"seed {tasks[task]}: {'failed' if failure else 'passed'}\n")
            if failure:
                failed.append(tasks[task])
                sys.stdout.write(failure)
                sys.stdout.flush()
    seconds, days = time.perf_counter() - began, sum(result.days for result in done)
    sys.stdout.write(
        f"{len(done)} seeds, {days:,} days ({sum(result.ended for result in done):,} runs not killed,"
        f" {sum(result.recent for result in done):,} recent scans) in {seconds:.0f} s: {days / seconds:.1f} days/s;"
        f" {len(failed)} seeds failed{f': {sorted(failed)}' if failed else ''}.\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

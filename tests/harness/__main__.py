"""Simulates the scenarios of many seeds: `python -m tests.harness --seeds 200 --first 0 --jobs 2`."""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

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
    began, failed, done = time.perf_counter(), [], []
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        seeds = range(args.first, args.first + args.seeds)
        run = partial(run_seed, days=args.days, left_out=tuple(args.without), shrinks=not args.as_it_is)
        for seed, (result, failure) in zip(seeds, pool.map(run, seeds), strict=True):
            done.append(result)
            if failure:
                failed.append(seed)
                sys.stdout.write(failure)
                sys.stdout.flush()
    seconds, days = time.perf_counter() - began, sum(result.days for result in done)
    sys.stdout.write(
        f"{len(done)} seeds, {days:,} days ({sum(result.ended for result in done):,} runs not killed,"
        f" {sum(result.recent for result in done):,} recent scans) in {seconds:.0f} s: {days / seconds:.1f} days/s;"
        f" {len(failed)} seeds failed{f': {failed}' if failed else ''}.\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

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
    args = parser.parse_args(arguments)
    began, failed, done = time.perf_counter(), [], []
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        for result in pool.map(partial(run_seed, days=args.days), range(args.first, args.first + args.seeds)):
            done.append(result)
            if result.violation is not None:
                failed.append(result.scenario.seed)
                sys.stdout.write(f"{result.scenario}\n{result.violation}\n\n")
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

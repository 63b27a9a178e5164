"""Simulates the scenarios of many seeds: `python -m tests.simulation --seeds 200 --first 0 --jobs 2`."""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from tests.simulation.run_seed import run_seed


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate the seeds; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--days", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args(arguments)
    seeds = range(args.first, args.first + args.seeds)
    began = time.perf_counter()
    days = ended = recent = 0
    failed: list[int] = []
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        results = pool.map(partial(run_seed, days=args.days), seeds)
        for seed, (result, to_the_end, stopped, scenario) in zip(seeds, results, strict=True):
            days, ended, recent = days + result, ended + to_the_end, recent + stopped
            if scenario is not None:
                failed.append(seed)
                sys.stdout.write(f"{scenario}\n\n")
                sys.stdout.flush()
    seconds = time.perf_counter() - began
    sys.stdout.write(
        f"{len(seeds)} seeds, {days:,} days ({ended:,} runs not killed, {recent:,} recent scans)"
        f" in {seconds:.0f} s:"
        f" {days / seconds:.1f} days/s; {len(failed)} seeds failed{f': {failed}' if failed else ''}.\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

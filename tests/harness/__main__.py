"""Simulates the scenarios of many seeds: `python -m tests.harness --seeds 200 --first 0 --jobs 2`."""

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from tests.harness.simulation import run_seed


def main() -> int:
    """Simulate the seeds; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness", description=__doc__)
    for name, default in (("--seeds", 200), ("--first", 0), ("--days", 8), ("--jobs", 2)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--without", nargs="*", default=[], help="parts to leave out, such as 3 or 5.faults")
    args = parser.parse_args()
    began, failed, counts = time.perf_counter(), list[int](), Counter[str]()
    seeds = range(args.first, args.first + args.seeds)
    simulated = partial(run_seed, days=args.days, without=args.without)
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        for seed, (result, failure) in zip(seeds, pool.map(simulated, seeds), strict=True):
            sys.stdout.write(failure or f"seed {seed}: passed\n")
            sys.stdout.flush()
            counts += result.counts
            failed += [seed] if failure else []
    seconds = time.perf_counter() - began
    sys.stdout.write(
        f"{counts['days']:,} days ({counts['ended']:,} runs not killed, {counts['recent']:,} recent scans,"
        f" {counts['alone']} files restored alone) in {seconds:.0f} s; failed: {failed or 'none'}.\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

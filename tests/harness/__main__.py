"""Simulates the scenarios of many seeds: `python -m tests.harness --seeds 200 --first 0 --jobs 2`."""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from tests.harness.simulation import run_seed


def main() -> int:
    """Simulate the seeds; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.harness", description=__doc__)
    for name, default in (("--seeds", 200), ("--first", 0), ("--days", 8), ("--jobs", 2)):
        parser.add_argument(name, type=int, default=default)
    args = parser.parse_args()
    began, failed, done = time.perf_counter(), list[int](), []
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        seeds = range(args.first, args.first + args.seeds)
        tasks = {pool.submit(run_seed, seed, args.days): seed for seed in seeds}
        for task in as_completed(tasks):
            result, failure = task.result()
            done.append(result)
            sys.stderr.write(f"seed {tasks[task]}: {'failed' if failure else 'passed'}\n")
            if failure:
                failed.append(tasks[task])
                sys.stdout.write(failure)
                sys.stdout.flush()
    seconds = time.perf_counter() - began
    days, ended, recent, alone = (
        sum(getattr(result, name) for result in done) for name in ("days", "ended", "recent", "alone")
    )
    sys.stdout.write(
        f"{len(done)} seeds, {days:,} days ({ended:,} runs not killed, {recent:,} recent scans, {alone} files restored"
        f" alone) in {seconds:.0f} s: {days / seconds:.1f} days/s; failed: {sorted(failed) or 'none'}.\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Plays the stories of many seeds: `python -m tests.simulation --seeds 200 --first 0 --jobs 2`."""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from tests.simulation.trying import try_seed


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the seeds; return 1 when one of them went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--days", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    message = parser.parse_args(arguments)
    seeds = range(message.first, message.first + message.seeds)
    began = time.perf_counter()
    days = ended = recent = 0
    wrong: list[int] = []
    with ProcessPoolExecutor(message.jobs, mp_context=get_context("spawn")) as pool:
        results = pool.map(partial(try_seed, days=message.days), seeds)
        for seed, (played, to_the_end, stopped, story) in zip(seeds, results, strict=True):
            days, ended, recent = days + played, ended + to_the_end, recent + stopped
            if story is not None:
                wrong.append(seed)
                sys.stdout.write(f"{story}\n\n")
                sys.stdout.flush()
    seconds = time.perf_counter() - began
    sys.stdout.write(
        f"{len(seeds)} seeds, {days:,} days ({ended:,} of them to their end, {recent:,} recent scans)"
        f" in {seconds:.0f} s:"
        f" {days / seconds:.1f} days/s; {len(wrong)} seeds went wrong{f': {wrong}' if wrong else ''}.\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

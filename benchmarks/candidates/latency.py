"""The latency with which a server is slow in proportion to the machine: the fetch alone takes N times as long.

A fixed latency would make a slow machine look worse: its CPU time grows, and the time of the fetch does not.
"""

import argparse
from pathlib import Path

from benchmarks.api.server_process import start_server
from benchmarks.candidates.jobs import measure_floor
from benchmarks.measuring.results import log
from benchmarks.measuring.samples import Sample

_ACCOUNTS, _POSTS, _ROUNDS = 400, 250, 3

# The part of the time of a fetch without latency that latency does not hide, for the first guess.
_CPU_SHARE = 0.8


def first_guess(times: float, at_once: Sample, in_flight: int) -> float:
    """Return a latency in seconds for a fetch that takes `times` as long as `at_once`; no IO."""
    return max(0.0, (times - _CPU_SHARE) * at_once.wall * in_flight / at_once.pages)


def corrected(latency: float, target: float, measured: Sample, in_flight: int) -> float:
    """Return a latency in seconds with which the fetch takes `target` seconds, after one measurement; no IO."""
    return max(0.0, latency + (target - measured.wall) * in_flight / measured.pages)


def set_latency(args: argparse.Namespace, folder: Path) -> None:
    """Set `args.latency` according to `args.fetch_times`, if that is given, by measuring the fetch of 100,000 items."""
    if not args.fetch_times:
        return

    def fetch(latency: float) -> Sample:
        with start_server(_ACCOUNTS, _POSTS, style=args.style, latency=latency) as server:
            fetched = (measure_floor(server, folder, args.in_flight) for _ in range(_ROUNDS))
            return sorted(fetched, key=lambda sample: sample.wall)[1]

    at_once = fetch(0)
    target = args.fetch_times * at_once.wall
    guess = first_guess(args.fetch_times, at_once, args.in_flight)
    args.latency = round(corrected(guess, target, fetch(guess), args.in_flight), 4)
    log(f"the fetch takes {at_once.wall:.2f} s without latency; {target:.2f} s with {args.latency * 1000:.0f} ms")

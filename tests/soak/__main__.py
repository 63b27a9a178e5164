"""Hundreds of runs on one warehouse: `python -m tests.soak --runs 1000 --fresh 200`."""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from flows.cli.__main__ import prepare_process
from tests.soak.growth import Limits, complaints, slope, warm
from tests.soak.rig import WORLD, Watch, served, soak, soak_fresh
from tests.soak.samples import Sample

_HEAD = f"{'run':>6} {'RSS MB':>8} {'fds':>5} {'threads':>8} {'tasks':>6} {'warehouse KB':>13} {'log KB':>7}"
_HEAD += f" {'snapshot KB':>12} {'files':>6} {'rows':>8} {'s':>6}\n"


def line(one: Sample) -> str:
    """Format a sample as a row of the table."""
    return (
        f"{one.run:>6} {one.vitals.resident / 1024:>8.1f} {one.vitals.descriptors:>5} {one.vitals.threads:>8}"
        f" {one.vitals.tasks:>6} {one.files.warehouse:>13,.0f} {one.files.log:>7,.0f} {one.files.snapshot:>12,.0f}"
        f" {len(one.files.names):>6} {one.rows:>8,} {one.seconds:>6.2f}\n"
    )


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _watch(samples: list[Sample]) -> Watch:
    def watch(sample: Sample) -> None:
        samples.append(sample)
        _say(line(sample))

    return watch


def _judge(samples: Sequence[Sample], limits: Limits) -> bool:
    message = list(complaints(samples, limits))
    looked_at = warm(samples, limits)
    per_run = slope([(one.run, one.vitals.resident) for one in looked_at])
    _say(f"After run {limits.warm_up}: memory {per_run:+.2f} KB per run.\n")
    _say("".join(f"GREW: {one}\n" for one in message) or "Nothing grew that should not.\n")
    return not message


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the syncs; return 1 if something grew that should not."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="in this process")
    parser.add_argument("--fresh", type=int, default=200, help="each in a process of its own")
    parser.add_argument("--every", type=int, default=0, help="look after so many runs; by default fifty times")
    output = parser.parse_args(arguments)
    sound = True
    # As in a process of gramhouse: other allocators keep memory that this one returns.
    prepare_process()
    with served(*WORLD) as service, tempfile.TemporaryDirectory() as home:
        for name, runs in (("in one process", output.runs), ("each in its own", output.fresh)):
            if not runs:
                continue
            _say(f"{runs} runs, {name}:\n{_HEAD}")
            folder, samples = Path(home, name.replace(" ", "-")), list[Sample]()
            every = output.every or max(1, runs // 50)
            is_one = name == "in one process"
            if is_one:
                asyncio.run(soak(folder, service, runs=runs, every=every, watch=_watch(samples)))
            else:
                soak_fresh(folder, service, runs=runs, every=every, watch=_watch(samples))
            sound = _judge(samples, Limits(warm_up=runs // 4)) and sound
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())

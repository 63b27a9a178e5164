"""Runs a group of benchmarks, one after the other: `python -m benchmarks small`, or `make bench SIZE=small`.

Each line of a group is a benchmark with its options; see README.md.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence

SMALL = """
sync.cold
sync.cold --style spaced
sync.again warm
sync.again warm --style spaced --with-dlt
sync.again nightly --with-dlt
sync.again nightly --style spaced
sync.again urls --style spaced
sync.again counts --style spaced
sync.cold --style spaced --fetch-times 3
sync.again warm --style spaced --fetch-times 3
sync.again nightly --style spaced --fetch-times 3
sync.again urls --style spaced --fetch-times 3
sync.again counts --style spaced --fetch-times 3
sync.cold --style keys --accounts 32 --without-dlt
sync.again warm --style keys --accounts 32
sync.resume
sync.startup
network.distance
network.in_flight
network.limits
network.limits --key
sync.shapes
warehouse.upkeep
warehouse.queries
warehouse.report
sync.incremental --accounts 1000
warehouse.large --sizes 40 400 --posts 250 --scanned 20
plot
goals
"""
# These keep their warehouses in the folder.
LARGE = """
sync.cold --accounts 400 --posts 2500 --without-dlt --folder {folder}
sync.again warm --accounts 400 --posts 2500 --folder {folder}
sync.again nightly --accounts 400 --posts 2500 --folder {folder}
sync.shapes --items 2000000 --one 1000000 --rounds 1 --folder {folder}
warehouse.upkeep --accounts 400 --posts 2500 --folder {folder}
warehouse.queries --accounts 400 --posts 2500 --folder {folder}
warehouse.report --accounts 400 --posts 2500 --folder {folder}
sync.cold --accounts 400 --posts 2500 --style spaced --fetch-times 3 --without-dlt
sync.shapes --items 2000000 --rounds 1 --style spaced --fetch-times 3
sync.cold --accounts 4000 --posts 2500 --rounds 1 --without-dlt --folder {folder}
sync.cold --accounts 4000 --posts 2500 --rounds 1 --style spaced --fetch-times 3 --without-dlt
warehouse.large --folder {folder}
warehouse.upkeep --accounts 4000 --posts 2500 --folder {folder}
warehouse.queries --accounts 4000 --posts 2500 --folder {folder}
warehouse.days --folder {folder}
plot
goals
"""
GROUPS = {
    "small": SMALL,
    "large": LARGE,
    "days": "warehouse.days --accounts 5000 --folder {folder}",
    "tracking": "sync.tracking\nsync.tracking --posts 100",
    "cluster": "cluster.workers\ncluster.workers --latency 0.2\n"
    "cluster.workers --accounts 40 --posts 1000 --latency 0.005 --per-second 10",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks of a group until one fails; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--folder", default="data/bench", help="where `large` and `days` keep warehouses (20 GB)")
    given = parser.parse_args(arguments)
    for line in GROUPS[given.group].strip().splitlines():
        program, *options = line.split()
        options = [option.format(folder=given.folder) for option in options]
        code = subprocess.run([sys.executable, "-m", f"benchmarks.{program}", *options], check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())

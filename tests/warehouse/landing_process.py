"""A process for tests to kill: it continues landing a scenario, merges now and then, and prints each commit."""

import random
import sys
from pathlib import Path

from connectors.warehouse.ingest.landing.page_commit import last_seq
from connectors.warehouse.storage.connection import writer
from tests.warehouse.rig import T0, Rig
from tests.warehouse.scenarios import CODES, PARTITIONS, Story, tell


def the_story() -> Story:
    draw = random.Random(11)
    rounds = [(draw.randint(1, 30), [draw.randrange(CODES) for _ in PARTITIONS]) for _ in range(9)]
    return list(tell(rounds))


def main(path: Path) -> None:
    with writer(path, "killed", since=T0.isoformat(), pause=lambda _: None) as connection:
        rig = Rig(connection)
        with connection.begin():
            rig.seq = last_seq(connection)
        for landing, _ in the_story()[rig.seq :]:
            rig.land(landing)
            sys.stdout.write(f"{rig.seq}\n")
            sys.stdout.flush()
            if rig.seq % 4 == 0:
                rig.merge()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

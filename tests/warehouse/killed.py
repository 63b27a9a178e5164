"""A process to be killed: it lands a story from where it was left and merges now and then, telling each commit."""

import random
import sys
from pathlib import Path

from connectors.warehouse.ingest.landing.page_commit import last_seq
from connectors.warehouse.storage.connection import writer
from tests.warehouse.house import T0, House
from tests.warehouse.story import CODES, PARTITIONS, Story, tell


def the_story() -> Story:
    draw = random.Random(11)
    rounds = [(draw.randint(1, 30), [draw.randrange(CODES) for _ in PARTITIONS]) for _ in range(9)]
    return list(tell(rounds))


def main(path: Path) -> None:
    with writer(path, "killed", since=T0.isoformat(), pause=lambda _: None) as connection:
        house = House(connection)
        with connection.begin():
            house.seq = last_seq(connection)
        for landing, _ in the_story()[house.seq :]:
            house.land(landing)
            sys.stdout.write(f"{house.seq}\n")
            sys.stdout.flush()
            if house.seq % 4 == 0:
                house.merge()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

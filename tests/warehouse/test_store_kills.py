"""A kill leaves a file that opens again, and any division of the inbox gives the same rows. tests/harness has more."""

import re
import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from models.checkpoint import Landing
from tests.warehouse.rig import POSTS, STORIES, Item, Rig, Scan, contents, item, opened

VALUES = {
    "boolean": True,
    "integer": 1,
    "long": 2**60,
    "number": 0.5,
    "time": "2026-01-01T00:00:00Z",
    "text": "x",
    "list": [1],
}


def widened(place: int) -> Item:
    """Return a field for each pair of types, with the first or the second value; the second widens its column."""
    return {f"{one}_{other}": (VALUES[one], VALUES[other])[place] for one, other in permutations(VALUES, 2)}


def killed(rig: Rig) -> Path:
    """Return a folder with the warehouse's file and log as a process that is killed now would leave them."""
    folder = rig.folder / "killed"
    folder.mkdir()
    for path in rig.folder.glob("warehouse.duckdb*"):
        shutil.copy(path, folder)
    assert (folder / "warehouse.duckdb.wal").exists()
    return folder


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_a_kill_after_columns_of_each_pair_of_types_were_widened(rig: Rig, *, is_checkpointed: bool) -> None:
    rig.full_scan(*(item(str(n), **widened(0)) for n in range(3)))
    if is_checkpointed:
        rig.db.execute("CHECKPOINT")
    rig.full_scan(item("0", **widened(1)), item("1", caption="B"))
    rig.full_scan(item("2", **widened(1), new=1))
    folder = killed(rig)
    for _ in range(2):
        with opened(folder) as again:
            assert again.values("merged_seq", "warehouse") == [3]
            assert again.values("new", "media", "media_id") == [None, None, 1]
            for name in widened(1):
                [first, none, last] = again.values(name, "media", "media_id")
                assert (first, none) == (last, None), name
    with opened(folder) as again:
        again.seq = 3
        again.full_scan(item("1", boolean_list=[2]))
        assert again.values("boolean_list", "media", "media_id") == ["[1]", "[2]", "[1]"]


ANYTHING = [*VALUES.values(), 3, 3.0, 2**53, 2**70, "7", "1.0", "true", [], [0, 1], {"inner": 1}]
FIELDS: Mapping[str, Sequence[object]] = {
    "timestamp": ["2026-02-28T22:00:00Z", "2026-03-01T11:00:00Z"],
    "caption": ["A", "B", "https://in.a/caption"],
    "permalink": ["https://x/1", "https://x/2"],
    "media_url": ["https://cdn/1", "https://cdn/2"],
    "like_count": [0, 1, 2],
    **dict.fromkeys(("x", "X", "view_count"), ANYTHING),
}
# What a page makes of its scan; None: an abandoned one, which a new one follows.
ENDS: list[dict[str, Any] | None] = [
    *({}, {}, {"state": "complete"}, {"state": "complete"}, None),
    {"state": "complete", "had_expired_token": True},
    {"state": "recent", "read_to": datetime.fromisoformat("2026-02-28T22:00:00Z")},
]
# Whether a number or a time is a text, and how it is spelled then, may depend on when its column widened.
SPELLING = re.compile(r'"(-?\d+(?:\.[1-9]\d*)?|true|false)(?:\.0)?"|(?<=\d)\.0\b|[T ]00:00:00(?:Z|\+00(?::00)?)')


def land(rig: Rig, random: Random) -> list[list[Landing]]:
    """Return the landings of each run."""

    def record() -> Item:
        fields = {name: random.choice(values) for name, values in FIELDS.items() if random.random() < 0.6}
        return item(random.choice("abc"), **fields) if random.random() < 0.9 else {"caption": "no id"}

    runs: list[list[Landing]] = [[]]
    scans: dict[object, Scan] = {}
    for _ in range(random.randint(1, 14)):
        rig.wait(random.choice((0, 0.5, 6)))
        # Two scans of a partition may be open: that of the sync, and a backfill's.
        place, end = (random.choice((POSTS, STORIES)), random.random() < 0.5), random.choice(ENDS)
        scan = scans.setdefault(place, rig.begin(place[0]))
        runs[-1].append(scan.page(*(record() for _ in range(random.randint(0, 4))), **(end or {})))
        if end != {}:
            del scans[place]
        if random.random() < 0.2:
            runs.append([])
            rig.run_seq += 1
    return runs


# Short stories that have found planted faults.
QUICK = (4, 13)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[] if seed in QUICK else [pytest.mark.long]) for seed in range(40)]
)
def test_any_division_gives_the_rows_of_landings_merged_one_by_one(tmp_path: Path, seed: int) -> None:
    found = []
    for most, folder in ((1, tmp_path / "one by one"), (5, tmp_path / "divided")):
        folder.mkdir()
        sizes = Random(seed)
        with opened(folder) as rig:
            for number, run in enumerate(land(rig, Random(seed)), 1):
                if number > 1:
                    rig.end_run()
                rig.run_seq, rest = number, run
                while rest:
                    size = sizes.randint(1, most)
                    rig.inbox, rest = rest[:size], rest[size:]
                    rig.merge()
            tables = {**contents(rig.db), "raw": rig.raw(), "types": rig.db.execute("DESCRIBE core.media").fetchall()}
            found.append(
                {name: sorted(SPELLING.sub(r"\1", repr(row)) for row in rows) for name, rows in tables.items()}
            )
    assert found[0] == found[1]

"""A kill leaves a file that opens again, and any division of the inbox gives the same rows. tests/harness has more."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.warehouse.raw.parts import read_parts
from models.checkpoint import Landing
from tests.operator import ROOT
from tests.warehouse.rig import POSTS, STORIES, Rig, Scan, contents, item, opened

VALUES = {
    "boolean": True,
    "integer": 1,
    "long": 2**60,
    "number": 0.5,
    "time": "2026-01-01T00:00:00Z",
    "text": "x",
    "list": [1],
}

# Each pair of types in a field of its own; the second value widens its column, in a process that is killed afterwards.
WIDENED = """
import os, sys
from itertools import permutations
from pathlib import Path
from tests.warehouse.rig import item, opened
from tests.warehouse.test_store_kills import VALUES

with opened(Path(sys.argv[1])) as rig:
    pairs = {f"{one}_{other}": (VALUES[one], VALUES[other]) for one, other in permutations(VALUES, 2)}
    rig.full_scan(*(item(str(n), **{name: pair[0] for name, pair in pairs.items()}) for n in range(3)))
    if sys.argv[2] == "checkpointed":
        rig.db.execute("CHECKPOINT")
    rig.full_scan(item("0", **{name: pair[1] for name, pair in pairs.items()}), item("1", caption="B"))
    rig.full_scan(item("2", **{name: pair[1] for name, pair in pairs.items()}, new=1))
    os._exit(9)
"""


@pytest.mark.parametrize("stored", ["checkpointed", "in_the_log"])
def test_a_kill_after_columns_of_each_pair_of_types_were_widened(tmp_path: Path, stored: str) -> None:
    process = subprocess.run([sys.executable, "-c", WIDENED, str(tmp_path), stored], check=False, cwd=ROOT)
    assert process.returncode == 9
    for _ in range(2):
        with opened(tmp_path) as rig:
            assert rig.values("merged_seq", "warehouse") == [3]
            assert rig.values("new", "media", "media_id") == [None, None, 1]
            for one, other in permutations(VALUES, 2):
                [(first,), (none,), (last,)] = rig.rows(f"{one}_{other}", "media", "media_id")
                assert (first, none) == (last, None), (one, other)
    with opened(tmp_path) as rig:
        rig.seq = 3
        rig.full_scan(item("1", boolean_list=[2]))
        assert rig.values("boolean_list", "media", "media_id") == ["[1]", "[2]", "[1]"]


ANYTHING = st.one_of(
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**53, 2**60, 2**70, 0.5, 1e20, 3.0]),
    st.sampled_from(["x", "7", "1.0", "true", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"]),
    st.lists(st.integers(0, 1), max_size=2),
    st.fixed_dictionaries({"inner": st.integers(0, 1)}),
)
RECORDS = st.one_of(
    st.fixed_dictionaries(
        {"id": st.sampled_from("abc"), "timestamp": st.sampled_from(["2026-02-28T22:00:00Z", "2026-03-01T11:00:00Z"])},
        optional={
            "caption": st.sampled_from(["A", "B", "https://in.a/caption"]),
            "permalink": st.sampled_from(["https://x/1", "https://x/2"]),
            "media_url": st.sampled_from(["https://cdn/1", "https://cdn/2"]),
            "like_count": st.integers(0, 2),
            "x": ANYTHING,
            "X": ANYTHING,
            "view_count": ANYTHING,
        },
    ),
    st.just({"caption": "no id"}),
)
STEP = st.fixed_dictionaries(
    {
        "partition": st.sampled_from([POSTS, STORIES]),
        # Two scans of a partition may be open: that of the sync, and a backfill's.
        "is_backfill": st.booleans(),
        "records": st.lists(RECORDS, max_size=4),
        "ends": st.sampled_from([None, None, "complete", "complete", "recent", "expired", "abandoned"]),
        "hours": st.sampled_from([0, 0.5, 6]),
        "ends_run": st.integers(0, 4).map(lambda number: number == 0),
    }
)


# How the scan of a page ends; "abandoned" is followed by a new one.
ENDS: dict[str | None, dict[str, Any]] = {
    None: {},
    "complete": {"state": "complete"},
    "recent": {"state": "recent", "read_to": datetime.fromisoformat("2026-02-28T22:00:00Z")},
    "expired": {"state": "complete", "had_expired_token": True},
    "abandoned": {},
}


def land(rig: Rig, steps: Sequence[Any]) -> list[list[Landing]]:
    """Return the landings of each run."""
    runs: list[list[Landing]] = [[]]
    scans: dict[object, Scan] = {}
    for step in steps:
        rig.wait(step["hours"])
        place = step["partition"], step["is_backfill"]
        scan = scans.setdefault(place, rig.begin(step["partition"]))
        runs[-1].append(scan.page(*step["records"], **ENDS[step["ends"]]))
        if step["ends"] is not None:
            del scans[place]
        if step["ends_run"]:
            runs.append([])
            rig.run_seq += 1
    return runs


def merge_divided(rig: Rig, runs: Sequence[Sequence[Landing]], cuts: st.DataObject | None) -> None:
    """Merge the landings of each run one by one, or cut at random."""
    for number, run in enumerate(runs, 1):
        rig.run_seq, rest = number, list(run)
        while rest:
            size = cuts.draw(st.integers(1, 5), "batch") if cuts else 1
            rig.inbox, rest = rest[:size], rest[size:]
            rig.merge()
        if number < len(runs):
            rig.end_run()


@pytest.mark.long
@settings(max_examples=40)
@given(steps=st.lists(STEP, min_size=1, max_size=14), data=st.data())
def test_any_division_gives_the_rows_of_landings_merged_one_by_one(steps: Sequence[Any], data: st.DataObject) -> None:
    found = []
    for is_divided in (False, True):
        with TemporaryDirectory() as folder, opened(Path(folder)) as rig:
            merge_divided(rig, land(rig, steps), data if is_divided else None)
            types = rig.db.execute("SELECT column_name, column_type FROM (DESCRIBE core.media)").fetchall()
            raw = [row for part in read_parts(rig.folder / "raw", merged_seq=rig.seq) for row in part.to_pylist()]
            found.append((sorted(types), by_value(contents(rig.db)), sorted(raw, key=repr)))
    assert found[0] == found[1]


def by_value(tables: Mapping[str, Sequence[Mapping[str, object]]]) -> object:
    """Return rows with the texts of numbers and times by value: their spelling may depend on when a column widened."""
    return {
        table: sorted(({name: plain(value) for name, value in row.items()} for row in rows), key=repr)
        for table, rows in tables.items()
    }


def plain(value: object) -> object:
    """Return a value; of a text, the number or the time that it spells, also within the content of a version."""
    if isinstance(value, str):
        if value.startswith("{"):
            return {name: plain(inner) for name, inner in json.loads(value).items()}
        if value in ("true", "false"):
            return value == "true"
        for read in (float, lambda text: datetime.fromisoformat(text).timestamp()):
            try:
                return read(value)
            except ValueError:
                continue
    return value

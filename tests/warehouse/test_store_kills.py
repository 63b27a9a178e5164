"""A kill leaves a file that opens again, with all or nothing of a merge; and a raw store that does not belong to it."""

import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

from connectors.warehouse.raw.parts import find_unmerged_parts, list_parts, part_path
from connectors.warehouse.storage.errors import WarehouseUnusable
from tests.operator import ROOT
from tests.warehouse.rig import Rig, item, opened

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


def test_a_part_that_is_newer_than_the_warehouse_is_refused_and_kept(rig: Rig) -> None:
    rig.full_scan(item("a"))
    rig.full_scan(item("b"))
    raw = rig.folder / "raw"
    with pytest.raises(WarehouseUnusable, match=r"is newer than the warehouse\. Fix: restore"):
        find_unmerged_parts(raw, merged_seq=1, raw_seq=1, inbox=set())
    part_path(raw, 1).unlink()
    with pytest.raises(WarehouseUnusable, match="which the warehouse needs, is missing"):
        find_unmerged_parts(raw, merged_seq=1, raw_seq=1, inbox={2})
    assert [*list_parts(raw)] == [2]

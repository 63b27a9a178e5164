"""Committed data without a checkpoint: after a kill, the file and its log can be opened again."""

import shutil
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from models.mapping import BUILT_IN, ColumnMapping, Mapping, Reading
from tests.warehouse.maintenance.test_rebuild import again, everything
from tests.warehouse.rig import Rig, item, opened
from tests.warehouse.test_store_kills import VALUES

NAMES = replace(BUILT_IN, columns=(*BUILT_IN.columns, ColumnMapping("integer_text", Reading.TEXT, ("/who/name",))))


@pytest.mark.parametrize("mapping", [BUILT_IN, NAMES], ids=["the same", "another"])
def test_the_file_reopens_after_a_kill_following_a_rebuild(tmp_path: Path, mapping: Mapping) -> None:
    """The registry forgets half of the types of each field before, so that columns change their types."""
    pairs = {f"{one}_{other}": (VALUES[one], VALUES[other]) for one, other in permutations(VALUES, 2)}
    with opened(tmp_path) as rig:
        for n in range(2):
            rig.full_scan(item("1", who={"name": "a"}, **{name: pair[n] for name, pair in pairs.items()}), item("2"))
        rig.db.execute("UPDATE core.fields SET kinds = kinds[:1]")
        rig.db.execute("CHECKPOINT")
        again(rig, mapping)
        killed = tmp_path / "killed"
        killed.mkdir()
        for path in tmp_path.glob("warehouse.duckdb*"):
            shutil.copy(path, killed)
        assert (killed / "warehouse.duckdb.wal").exists()
        left = everything(rig)
    with opened(killed) as rig:
        assert everything(rig) == left
        rig.seq, rig.folder, rig.mapping = 9, killed, mapping
        rig.full_scan(item("1", who={"name": "b"}), item("3", integer_text="c"))
        assert len(Rig.values(rig, "media_id")) == 3

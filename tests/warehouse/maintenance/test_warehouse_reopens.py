"""Committed data without a checkpoint: after a kill, the file and its log can be opened again.

DuckDB 1.5 cannot call functions while it replays its log, so a log with an ALTER that calls one could not be replayed.
"""

import json
import shutil
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

from connectors.warehouse.storage.connection import Connection, connect
from models.mapping import BUILT_IN, Mapping
from tests.warehouse.rig import POSTS, Item, Rig

VALUES = {
    "integer": 1,
    "number": 0.5,
    "boolean": True,
    "text": "a",
    "instant": "2026-01-01T00:00:00Z",
    "wide": 2**70,
    "integers": [1],
    "texts": ["a"],
    "mixed": [1, "a"],
    "object": {"y": 1},
    "objects": [{"y": 1}],
    "other objects": [{"y": "a", "z": [1]}],
}


def _opens_again(path: Path, work: Callable[[Connection], object]) -> None:
    """Do work, then open a copy of the files in their state after a kill; it must have the results."""
    with connect(path) as connection:
        connection.db.execute("CHECKPOINT")
        work(connection)
        copy = path.with_name("killed.duckdb")
        shutil.copy(path, copy)
        log = path.with_name(path.name + ".wal")
        assert log.exists()
        shutil.copy(log, copy.with_name(copy.name + ".wal"))
        left = Rig(connection).everything("schema_name = 'core'")
    with connect(copy) as connection:
        assert Rig(connection).everything("schema_name = 'core'") == left


def _item(media_id: str, kinds: dict[str, str]) -> Item:
    fields = {name: VALUES[kind] for name, kind in kinds.items()}
    return {"id": media_id, **fields, "r": [fields]}


def test_the_file_reopens_after_a_kill_following_any_change_of_type(path: Path) -> None:
    pairs = list(permutations(VALUES, 2))
    with connect(path) as connection:
        rig = Rig(connection)
        rig.scan(POSTS, "one", 0, [_item("1", {f"{a} then {b}": a for a, b in pairs})])
        seq = rig.seq

    def second(connection: Connection) -> None:
        rig = Rig(connection)
        rig.seq = seq
        rig.scan(POSTS, "two", 1, [_item("2", {f"{a} then {b}": b for a, b in pairs})])

    _opens_again(path, second)


def test_the_file_reopens_after_a_kill_following_a_rebuild(path: Path) -> None:
    with connect(path) as connection:
        Rig(connection).scan(POSTS, "one", 0, [{"id": "1", "x": 1, "who": {"name": "a"}, "r": [{"x": 1}]}])
    message = json.loads(BUILT_IN.to_json())
    mapping = Mapping.from_json(json.dumps(message).replace('"/caption"', '"/who/name", "/caption"'))

    _opens_again(path, lambda connection: Rig(connection).rebuild(mapping))

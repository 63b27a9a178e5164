from pathlib import Path

import pytest

from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.storage.errors import SnapshotMissing
from tests.warehouse.days import refusal


def test_a_missing_snapshot_is_reported_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(SnapshotMissing, match=r"no snapshot at .*none\.duckdb yet\. Fix: `gramhouse sync`"):
        open_snapshot(tmp_path / "none.duckdb").__enter__()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["text", "folder", "empty"])
def test_a_file_that_is_not_a_snapshot_is_reported_in_one_line(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.duckdb"
    if kind == "folder":
        path.mkdir()
    else:
        path.write_text("no database\n" * 1000 if kind == "text" else "")
    assert refusal(lambda: open_snapshot(path).__enter__()).startswith(f"{path} cannot be read: ")

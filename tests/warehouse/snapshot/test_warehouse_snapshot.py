from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.warehouse.snapshot.reader import Snapshot, open_snapshot
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.errors import SnapshotMissing
from tests.warehouse.rig import POSTS, T0, emptied, refusal


@pytest.fixture(scope="module")
def published(opened_rig: Connection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rig = emptied(opened_rig)
    rig.scan(POSTS, "p", 0, [{"id": "1", "caption": "it's"}])
    snapshot = tmp_path_factory.mktemp("published") / "analytics.duckdb"
    rig.publish(snapshot, 0)
    return snapshot


@pytest.fixture
def snapshot(published: Path) -> Iterator[Snapshot]:
    with open_snapshot(published) as opened:
        yield opened


def test_questions_are_answered_with_names_and_values(snapshot: Snapshot) -> None:
    answer = snapshot.query("SELECT media_id, caption AS text FROM media WHERE caption = ?", ["it's"])
    assert answer.columns == ("media_id", "text")
    assert answer.records() == [{"media_id": "1", "text": "it's"}]
    assert snapshot.query("SELECT 1 WHERE false").rows == []
    assert snapshot.query("SELECT snapshot_at FROM published").rows == [(T0,)]


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

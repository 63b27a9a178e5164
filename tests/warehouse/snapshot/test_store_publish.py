"""The snapshot: a copy of the warehouse with its views, or a new file without hidden columns."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from connectors.warehouse.publish.publish import Publication, StateRows, publish
from connectors.warehouse.storage.errors import WarehouseUnusable
from models.partition import CATALOGUE
from models.views import views
from tests.warehouse.rig import STORIES, Rig, account, item, opened

_TIME = pa.timestamp("us", tz="UTC")
_RUNS = pa.schema(
    [
        ("run_id", pa.string()), ("seq", pa.int64()), ("kind", pa.string()), ("selection", pa.string()),
        ("reason", pa.string()), ("state", pa.string()), ("started_at", _TIME), ("version", pa.string()),
    ]
)  # fmt: skip
_WARNINGS = pa.schema(
    [
        ("run_id", pa.string()), ("code", pa.string()), ("count", pa.int64()), ("detail", pa.string()),
        ("hint", pa.string()), ("makes_partial", pa.bool_()),
    ]
)  # fmt: skip
_CHECKPOINTS = pa.schema(
    [
        ("account_id", pa.string()), ("surface", pa.string()), ("scan_id", pa.string()), ("run_id", pa.string()),
        ("started_at", _TIME), ("cursor", pa.string()), ("pages", pa.int64()), ("read_to", _TIME),
        ("began_seq", pa.int64()),
    ]
)  # fmt: skip


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with opened(tmp_path) as found:
        found.full_scan(account(1), partition=CATALOGUE)
        yield found


def publish_now(rig: Rig, *, selection: str | None = None, **given: Any) -> Path:  # noqa: ANN401
    runs = [
        {
            "run_id": f"run-{number}", "seq": number, "kind": "backfill" if selection else "sync",
            "selection": selection, "reason": selection, "state": "complete", "started_at": rig.now, "version": "2",
        }
        for number in range(1, rig.run + 1)
    ]  # fmt: skip
    state = StateRows(pa.Table.from_pylist(runs, _RUNS), _WARNINGS.empty_table(), _CHECKPOINTS.empty_table())
    day = timedelta(days=1)
    publication = Publication(rig.now, "2.0", day, 7 * day, rig.folder / "raw", **given)
    snapshot = rig.folder / "analytics.duckdb"
    publish(rig.db, rig.folder / "warehouse.duckdb", snapshot, state, publication)
    return snapshot


def ask(snapshot: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(snapshot), read_only=True) as db:
        return db.execute(query).fetchall()


def columns(snapshot: Path, view: str) -> Sequence[str]:
    return [row[0] for row in ask(snapshot, f"DESCRIBE {view}")]


def test_all_views_answer(rig: Rig) -> None:
    rig.full_scan(item("1", like_count=5, shortCode="x", tags=["a"], owner={"name": "n"}))
    rig.wait(24)
    rig.full_scan(item("1", like_count=7, caption="Another", shortCode="y", tags=["b"], owner={"name": "n"}))
    rig.full_scan(item("2"), partition=STORIES)
    snapshot = publish_now(rig)
    for view in views():
        ask(snapshot, f"FROM {view}")
    assert ask(snapshot, "SELECT caption, short_code, owner__name, tags FROM media WHERE media_id = '1'") == [
        ("Another", "y", "n", '["b"]')
    ]
    assert ask(
        snapshot, "SELECT caption, short_code, tags, valid_to IS NULL FROM media_history WHERE media_id = '1'"
    ) == [
        ("A caption", "x", '["a"]', False),
        ("Another", "y", '["b"]', True),
    ]
    assert ask(snapshot, "SELECT change, columns FROM changes WHERE media_id = '1' ORDER BY changed_at") == [
        ("new", None),
        ("changed", ["caption", "short_code", "tags"]),
    ]
    assert ask(snapshot, "SELECT path, column_name, type, items FROM fields WHERE first_seen_at IS NOT NULL") == [
        ("/shortCode", "short_code", "VARCHAR", 1),
        ("/tags", "tags", "VARCHAR", 1),
        ("/owner/name", "owner__name", "VARCHAR", 1),
    ]
    assert ask(snapshot, "SELECT column_name, type, items FROM fields WHERE path = '/caption'") == [
        ("caption", "VARCHAR", None)
    ]


def test_a_list_is_a_view_of_its_elements(rig: Rig) -> None:
    children = [{"id": "7", "media_type": "IMAGE"}, {"id": 8, "size": {"width": 5}}]
    rig.full_scan(item("1", children={"data": children}, tags=["a", "b"], places=[{"id": 1, "name": "x"}]))
    snapshot = publish_now(rig)
    assert ask(snapshot, "SELECT position, child_id, media_type, size__width FROM media_children") == [
        (0, "7", "IMAGE", None),
        (1, "8", None, 5),
    ]
    assert ask(snapshot, "SELECT position, id, name FROM media_places") == [(0, 1, "x")]
    assert ask(snapshot, "SELECT count(*) FROM media_tags") == [(2,)]


def test_a_new_type_renews_the_views(rig: Rig) -> None:
    rig.full_scan(item("1", size=1))
    snapshot = publish_now(rig)
    rig.wait(1)
    rig.full_scan(item("1", size="large"))
    publish_now(rig)
    assert ask(snapshot, "SELECT size FROM media") == [("large",)]
    assert ask(snapshot, "SELECT size FROM media_history ORDER BY valid_from") == [("1",), ("large",)]


@pytest.mark.parametrize("setting", ["ig_username", "ig_username:hash"])
def test_a_hidden_name_is_nowhere(rig: Rig, setting: str) -> None:
    name = "hidden.name"
    rig.full_scan(account(1, name=name), partition=CATALOGUE)
    record = item(
        "1", permalink=f"https://x.test/{name}", shortcode=f"{name}-1", username=name,
        owner={"userName": name, "id": 5}, tags=[{"user_name": name, "x": 1}, [{"\uff35sername": name}]],
    )  # fmt: skip
    rig.full_scan(record)
    rig.wait(1)
    rig.full_scan({**record, "caption": "Another", "username": f"{name}2"}, {"username": name})
    snapshot = publish_now(rig, hide=[setting], salt="pepper", selection=f"account {name}")
    data = snapshot.read_bytes()
    assert name.encode() not in data
    with duckdb.connect(str(snapshot), read_only=True) as db:
        for schema, table in db.execute("SELECT schema_name, table_name FROM duckdb_tables()").fetchall():
            assert name not in str(db.execute(f'FROM {schema}."{table}"').fetchall()), table
    is_shown = setting.endswith(":hash")
    assert ("ig_username" in columns(snapshot, "accounts")) is is_shown
    assert "permalink" not in columns(snapshot, "media") or is_shown
    for view in views():
        ask(snapshot, f"FROM {view}")
        ask(snapshot, f"FROM padded.{view}")


def test_what_was_hidden_is_not_shown_in_silence(rig: Rig) -> None:
    rig.full_scan(item("1"))
    snapshot = publish_now(rig, hide=["caption"])
    with pytest.raises(WarehouseUnusable, match="hides caption, and the next snapshot would show it"):
        publish_now(rig)
    assert "caption" not in columns(snapshot, "media")
    publish_now(rig, may_show=True)
    assert "caption" in columns(snapshot, "media")

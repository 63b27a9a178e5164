from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from connectors.warehouse.maintenance.opening import adopt_mapping
from connectors.warehouse.snapshot.export import export
from connectors.warehouse.storage.errors import WarehouseUnusable
from flows.reporting.page.write import write
from models.mapping import BUILT_IN, ColumnMapping, Reading
from models.page_commit import PageCommit
from models.partition import media
from models.runs import Outcome, OutcomeKind, RunState
from tests.warehouse.rig import BEN, POSTS, STORIES, Item, Rig, account, ask, at, in_memory, refusal

CAPTION, NAME, TAGGED = "canary-Wq7", "canaryann", "canary-Zk3"
NO_SHOW = "#canary-tag"


def post(number: int, caption: str = CAPTION, **more: object) -> Item:
    return {
        "id": f"10{number}", "caption": f"{caption} {NO_SHOW}", "media_type": "IMAGE", "like_count": 20 + number,
        "permalink": f"https://social.example/{NAME}/p/{number}", "timestamp": f"2026-01-0{number}T00:00:00Z",
        "owner": {"username": NAME, "name": "n"}, "children": [
            {"id": "c", "text": TAGGED, "username": NAME, "replies": [{"userName": NAME, "text": TAGGED}]},
        ],
        "mixed": [1, {"user_name": NAME}], "author": {"userName": {"shown": NAME}},
        # Their columns get a number, because the names are taken.
        "ig_username": NAME, "user_name": NAME, "userName": NAME, **more,
    }  # fmt: skip


@pytest.fixture(scope="module")
def filled() -> Iterator[Rig]:
    """Versions, counts, removed items, a renamed account, two types, quarantine, a backfill, all with canaries."""
    with in_memory() as connection:
        connection.db.execute("SET force_compression = 'uncompressed'")
        fill(rig := Rig(connection))
        yield rig


def fill(rig: Rig) -> None:
    rig.catalogue("c0", -1, [account(name=f"{NAME} before")])
    rig.catalogue("c1", 0, [account(name=NAME), account(BEN, name="ben"), account("1", name=NAME)])
    rig.scan(POSTS, "p1", 1, [post(n) for n in range(1, 9)])
    rig.scan(STORIES, "s1", 2, [post(9, text=TAGGED, view_count="many", saved=True), {"caption": CAPTION}])
    rig.scan(media(BEN, "posts"), "b1", 3, [post(7), {"id": "8", "caption": {"text": CAPTION, "x": [CAPTION]}}])
    rig.scan_twice(POSTS, "p2", 12, [post(n, caption=f"{CAPTION} edited", like_count=n) for n in range(1, 8)])
    rig.scan(POSTS, "p3", 400, [post(n, like_count=40 + n) for n in range(1, 8)])
    rig.run("r1", 401, state=RunState.PARTIAL, kind="backfill", selection=NAME, published=False)
    rig.do(f"UPDATE core.runs SET reason = '{NAME}'")
    failed = Outcome(POSTS, "r1", OutcomeKind.FAILED, at(401), at(401), error_code="api_internal_error")
    rig.record(PageCommit(outcomes=(failed,)))


def put(rig: Rig, snapshot: Path, *hide: str) -> Path:
    rig.publish(snapshot, hide=hide)
    return snapshot


def published(snapshot: Path, folder: Path) -> bytes:
    """Everything that is published: the snapshot's bytes, the report, and the export with its files decompressed."""
    write(snapshot, folder / "report.html")
    export(snapshot, folder / "export", at=at(501))
    rows = [duckdb.sql(f"FROM '{file}'").fetchall() for file in sorted((folder / "export").rglob("*.parquet"))]
    files = [snapshot, folder / "report.html", folder / "export" / "manifest.json"]
    return b"".join(file.read_bytes() for file in files) + repr(rows).encode()


def test_no_published_file_has_a_value_that_is_left_out(filled: Rig, tmp_path: Path) -> None:
    shown = published(put(filled, tmp_path / "all.duckdb"), tmp_path)
    for canary in (CAPTION, NAME, TAGGED, NO_SHOW):
        assert canary.encode() in shown, "the search finds it where it is not hidden"
    hidden = published(put(filled, tmp_path / "some.duckdb", "caption", "ig_username", "text"), tmp_path)
    for canary in (CAPTION, NAME, TAGGED, NO_SHOW):
        assert canary.encode() not in hidden
    assert ask(tmp_path / "some.duckdb", "SELECT hidden FROM published", as_published=True) == [
        ("caption, ig_username, text",)
    ]


def test_columns_that_are_left_out_are_in_no_table_and_the_commands_read_the_others(
    filled: Rig, tmp_path: Path
) -> None:
    snapshot = put(filled, tmp_path / "a.duckdb", "caption", "ig_username", "like_count", "text")
    listed = "SELECT table_name, column_name FROM duckdb_columns() WHERE schema_name = 'main'"
    columns = ask(snapshot, listed, as_published=True)
    gone = {"caption", "ig_username", "permalink", "owner__username", "username", "like_count", "text"}
    assert gone.isdisjoint(name for _, name in columns)
    assert "owner__name" in {name for _, name in columns}
    # What is computed from such columns is NULL, or there are no rows.
    for query in ("FROM hashtags", "FROM caption_edits", "FROM media_metrics WHERE metric = 'like_count'"):
        assert ask(snapshot, query, as_published=True) == []
    assert ask(snapshot, "SELECT DISTINCT payload FROM quarantine", as_published=True) == [("(hidden)",)]
    hidden = "SELECT selection, reason FROM runs WHERE kind = 'backfill'"
    assert ask(snapshot, hidden, as_published=True) == [("(hidden)", "(hidden)")]
    # Commands and the report read the same tables as ever, with the ids of accounts as their names.
    query = "SELECT count(*), count(caption), bool_and(ig_username = account_id) FROM media"
    assert ask(snapshot, query) == [(11, 0, True)]
    with pytest.raises(WarehouseUnusable, match="has hidden columns, so the raw store cannot be read"):
        export(snapshot, tmp_path / "raw", at=at(501), with_raw=True)


def test_hashes_are_equal_for_equal_values_in_every_table_and_snapshot(filled: Rig, tmp_path: Path) -> None:
    query = "SELECT DISTINCT ig_username FROM accounts ORDER BY 1"
    first = put(filled, tmp_path / "a.duckdb", "ig_username:hash", "caption:hash")
    names = ask(first, query, as_published=True)
    # As the API calls the name.
    again = put(filled, tmp_path / "a.duckdb", "username:hash")
    assert ask(again, query, as_published=True) == names
    assert len(names) == 2
    assert all(len(name) == 32 for (name,) in names)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("captoin", "no table has a column 'captoin'. Fix: use caption."),
        ("username2", "no table has a column 'username2'. Fix: use username."),
        ("account_id", "account_id cannot be hidden, because gramhouse needs it. Fix: remove it"),
        ("like_count:hash", "because it is a count, recorded as a number, not text. Fix: write like_count"),
        # Its column is VARCHAR.
        ("view_count:hash", "because it is a count, recorded as a number, not text. Fix: write view_count"),
        ("saved:hash", "saved cannot be hashed, because it is BOOLEAN, not text. Fix: write saved"),
    ],
)
def test_a_column_that_cannot_be_hidden_is_refused(filled: Rig, tmp_path: Path, name: str, message: str) -> None:
    told = refusal(lambda: put(filled, tmp_path / "a.duckdb", name))
    assert told.startswith("GRAMHOUSE_HIDE: ")
    assert message in told
    assert not (tmp_path / "a.duckdb").exists()


@pytest.mark.parametrize("key", ["userName", "_username", "user:name", "User\u00a0Name+", "$user/name"])
def test_json_with_a_key_that_is_hidden_is_left_out(rig: Rig, snapshot: Path, key: str) -> None:
    tags = [{"id": "a", "replies": [{key: NAME}]}, {"id": "b", "replies": [{"n": 1}]}]
    mixed = [1, {"owner": {"user_name": NAME}}]
    rig.scan(POSTS, "p", 0, [{"id": "1", "tags": tags, "mixed": mixed}, {"id": "2", "mixed": [1, {"n": 2}]}])
    put(rig, snapshot, "ig_username:hash")
    replies = ask(snapshot, "SELECT replies FROM media_tags ORDER BY position", as_published=True)
    assert replies == [(None,), ('[{"n":1}]',)]
    assert ask(snapshot, "SELECT mixed FROM media ORDER BY media_id", as_published=True) == [(None,), ('[1,{"n":2}]',)]


def test_the_elements_of_a_list_with_a_hidden_name_are_left_out(rig: Rig, snapshot: Path) -> None:
    rig.scan(
        POSTS, "p", 0, [{"id": "1", "username": [{"text": NAME}], "owner": {"userName": [{"text": NAME}], "n": 1}}]
    )
    put(rig, snapshot, "ig_username")
    tables = "SELECT DISTINCT table_name FROM information_schema.columns WHERE table_name LIKE 'media%' ORDER BY 1"
    for (table,) in ask(snapshot, tables, as_published=True):
        assert NAME not in str(ask(snapshot, f"FROM {table}", as_published=True))


def test_json_is_left_out_for_a_column_whose_name_has_a_number(rig: Rig, snapshot: Path) -> None:
    rig.scan(POSTS, "p", 0, [{"id": "1", "email": "a", "Email": "b", "mixed": [1, {"Email": NAME}]}])
    assert ask(put(rig, snapshot), "SELECT email, email_2 FROM media") == [("a", "b")]
    put(rig, snapshot, "email_2")
    assert ask(snapshot, "SELECT mixed FROM media", as_published=True) == [(None,)]


def test_a_count_whose_column_got_a_number_is_hidden_with_its_name(rig: Rig, snapshot: Path) -> None:
    mapping = replace(BUILT_IN, columns=(*BUILT_IN.columns, ColumnMapping("views", Reading.TEXT, ("/shown",))))
    rig.call(adopt_mapping, mapping)
    rig.scan(POSTS, "p", 0, [{"id": "1", "shown": "a text", "views": 77}, {"id": "2", "views": "many"}])
    counts = "SELECT metric, value FROM media_metrics"
    assert ask(put(rig, snapshot), counts) == [("views_2", 77)]
    assert ask(put(rig, snapshot, "views:hash"), counts) == []
    assert ask(snapshot, "SELECT strlen(views) FROM media WHERE views IS NOT NULL", as_published=True) == [(32,)]
    assert "views_2" not in [name for name, *_ in ask(snapshot, "DESCRIBE media", as_published=True)]

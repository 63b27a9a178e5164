from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from connectors.warehouse.maintenance.rebuild import rebuild
from connectors.warehouse.publish.hide import hash_expression, hash_text
from connectors.warehouse.queries.export import export
from connectors.warehouse.storage.connection import transaction
from flows.reporting.page import write_page
from models.feeds import CATALOGUE, media
from models.files import WarehouseUnusable
from models.mapping import BUILT_IN, ColumnMapping, Reading
from models.runs import Outcome, OutcomeKind, RunState
from tests.warehouse.rig import BEN, POSTS, STORIES, Item, Rig, Row, account, ask, at, opened, refusal

CARA = "cccccccc-2222-4333-8444-555555555555"
CAPTION, NAME, TAGGED = "canary-Wq7", "canaryann", "canary-Zk3"
NO_SHOW = "#canary-tag"


def post(number: int, caption: str = CAPTION, **more: object) -> Item:
    return {
        "id": f"10{number}", "caption": f"{caption} {NO_SHOW}", "media_type": "IMAGE", "like_count": 20 + number,
        "permalink": f"https://social.example/{NAME}/p/{number}", "shortcode": f"{NAME}{number}",
        "timestamp": f"2026-01-0{number}T00:00:00Z",
        "owner": {"username": NAME, "name": "n"}, "children": [
            {"id": "c", "text": TAGGED, "username": NAME, "replies": [{"userName": NAME, "text": TAGGED}]},
        ],
        "mixed": [1, {"user_name": NAME}], "author": {"userName": {"shown": NAME}},
        # Their columns get a number, because the names are taken.
        "ig_username": NAME, "user_name": NAME, "userName": NAME, **more,
    }  # fmt: skip


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Versions, counts, removed items, a renamed account, two types, quarantine, a backfill, all with canaries."""
    with opened(tmp_path_factory.mktemp("filled")) as rig:
        rig.db.execute("SET force_compression = 'uncompressed'")
        rig.scan(CATALOGUE, -1, [account(name=f"{NAME} before")])
        rig.scan(CATALOGUE, 0, [account(name=NAME), account(BEN, name="ben"), account(CARA, name=NAME)])
        rig.scan(POSTS, 1, [post(n) for n in range(1, 9)])
        rig.scan(STORIES, 2, [post(9, text=TAGGED, view_count="many", saved=True), {"caption": CAPTION}])
        captioned = {"id": "8", "caption": {"text": CAPTION, "x": [CAPTION]}}
        rig.scan(media(BEN, "posts"), 3, [post(7, view_count=7), captioned])
        for hour in (12, 25):
            rig.scan(POSTS, hour, [post(n, caption=f"{CAPTION} edited", like_count=n) for n in range(1, 8)])
        rig.scan(POSTS, 400, [post(n, like_count=40 + n) for n in range(1, 8)])
        denied, code = f"The grant of @{NAME} was revoked.", "api_forbidden"
        failed = Outcome(POSTS, "r1", OutcomeKind.DENIED, at(401), at(401), error_code=code, detail=denied)
        rig.run("r1", 401, {POSTS: failed}, state=RunState.PARTIAL, kind="backfill", selection=NAME, reason=NAME)
        missing = f"2 of 3 known accounts ({NAME}, ben and 1 more) are missing."
        rig.runs[-1]["detail"] = denied
        rig.warnings.append(
            {"run_id": "r1", "code": "accounts_missing", "count": 2, "detail": missing, "makes_partial": True}
        )
        yield rig


def put(rig: Rig, snapshot: Path, *hide: str) -> Path:
    return rig.publish(snapshot, hide=hide, salt="pepper", may_show=True)


def published(snapshot: Path, folder: Path) -> bytes:
    """Everything that is published: the snapshot's bytes, the report, and the export with its files decompressed."""
    write_page(snapshot, folder / "report.html")
    export(snapshot, folder / "export")
    rows = [duckdb.sql(f"FROM '{file}'").fetchall() for file in sorted((folder / "export").rglob("*.parquet"))]
    files = [snapshot, folder / "report.html"]
    return b"".join(file.read_bytes() for file in files) + repr(rows).encode()


@pytest.fixture(scope="module")
def shown(filled: Rig) -> Path:
    """A snapshot that hides nothing."""
    return put(filled, filled.folder / "all.duckdb")


def test_no_published_file_has_a_value_that_is_left_out(filled: Rig, shown: Path, tmp_path: Path) -> None:
    everything = published(shown, tmp_path)
    for canary in (CAPTION, NAME, TAGGED, NO_SHOW):
        assert canary.encode() in everything, "the search finds it where it is not hidden"
    hidden = published(put(filled, tmp_path / "some.duckdb", "caption", "ig_username", "text"), tmp_path)
    for canary in (CAPTION, NAME, TAGGED, NO_SHOW):
        assert canary.encode() not in hidden
    assert ask(tmp_path / "some.duckdb", "SELECT hidden FROM published") == [("caption,ig_username,text",)]


def test_every_table_keeps_its_columns_without_the_hidden_values(filled: Rig, shown: Path, tmp_path: Path) -> None:
    listed = "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE schema_name = 'main' ORDER BY ALL"
    columns = ask(shown, listed)
    snapshot = put(filled, tmp_path / "a.duckdb", "caption", "ig_username", "like_count", "text", "kind")
    assert ask(snapshot, listed) == columns
    gone = {"caption", "permalink", "owner__username", "username", "like_count", "text"}
    for table, name, _ in columns:
        if name in gone:
            assert ask(snapshot, f'SELECT count("{name}") FROM "{table}"') == [(0,)]
    # What is computed from such columns is NULL, or there are no rows.
    for query in ("FROM hashtags", "FROM caption_edits", "FROM media_metrics WHERE metric = 'like_count'"):
        assert ask(snapshot, query) == []
    # Every account has a name.
    query = "SELECT count(*), count(owner__name), count(kind), bool_and(ig_username = account_id) FROM media"
    assert ask(snapshot, query) == [(11, 10, 0, True)]
    assert ask(snapshot, "SELECT DISTINCT payload FROM quarantine") == [("(hidden)",)]
    hidden = "SELECT selection, reason FROM runs WHERE kind = 'backfill'"
    assert ask(snapshot, hidden) == [("(hidden)", "(hidden)")]
    told = (
        "FROM duckdb_columns() SELECT comment WHERE table_name = 'media' AND column_name = 'caption' AND comment <> ''"
    )
    assert ask(snapshot, told) == [("The caption as published. Hidden.",)]
    with pytest.raises(WarehouseUnusable, match="has hidden columns, so the raw store cannot be read"):
        export(snapshot, tmp_path / "raw", with_raw=True)


def test_hashes_are_equal_for_equal_values_in_every_table_and_snapshot(filled: Rig, tmp_path: Path) -> None:
    query = "SELECT DISTINCT ig_username FROM accounts ORDER BY 1"
    first = put(filled, tmp_path / "a.duckdb", "ig_username:hash", "caption:hash")
    assert NAME.encode() not in published(first, tmp_path)
    names = ask(first, query)
    # As the API calls the name.
    again = put(filled, tmp_path / "a.duckdb", "username:hash")
    assert ask(again, query) == names
    assert len(names) == 2
    assert all(len(name) == 32 for (name,) in names)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("captoin", "no table has a column 'captoin' that can be hidden. Did you mean caption? Fix: remove it, or"),
        ("account_id", "no table has a column 'account_id' that can be hidden."),
        ("like_count:hash", "like_count cannot be hashed, because it is BIGINT, not text. Fix: write like_count"),
        # Its column is VARCHAR.
        ("view_count:hash", "view_count cannot be hashed, because it is a count, not text. Fix: write view_count"),
        ("mixed:hash", "mixed cannot be hashed, because it is a list, not text. Fix: write mixed without"),
        ("saved:hash", "saved cannot be hashed, because it is BOOLEAN, not text. Fix: write saved"),
    ],
)
def test_a_column_that_cannot_be_hidden_is_refused(filled: Rig, tmp_path: Path, name: str, message: str) -> None:
    told = refusal(lambda: put(filled, tmp_path / "a.duckdb", name))
    assert told.startswith("GRAMHOUSE_HIDE: ")
    assert message in told
    assert not (tmp_path / "a.duckdb").exists()


KEYS = ("userName", "User\u00a0Name+", "ｕｓｅｒｎａｍｅ", '"username"')  # noqa: RUF001 - full width
TWO_LISTS = {"email": "a", "Email": "b", "mixed": [1, {"Email": NAME}], "tags": [NAME]}
NAMED = {"username": [{"text": NAME}], "owner": {"userName": [{"text": NAME}], "n": 1}}

# What an item says, what is hidden, and what the snapshot answers.
CASES: dict[str, tuple[Item, str, dict[str, list[Row]]]] = {
    # JSON is without the keys, however they are spelled.
    "keys": (
        {
            "tags": [{"id": "a", "replies": [{key: NAME, "n": 1} for key in KEYS]}],
            "mixed": [1, {"owner": dict.fromkeys(KEYS, NAME)}],
        },
        "ig_username:hash",
        {
            "SELECT replies FROM media_tags": [('[{"n":1},{"n":1},{"n":1},{"n":1}]',)],
            "SELECT mixed FROM media": [('[1,{"owner":{}}]',)],
        },
    ),
    # A column whose name has a number, and a list.
    "number": (
        TWO_LISTS,
        "email_2,tags",
        {
            "SELECT COLUMNS('mail|mixed|tags') FROM media": [("a", "[1,{}]", None, None)],
            # The registry does not list them, either.
            "SELECT path FROM fields WHERE path IN ('/email', '/Email', '/tags')": [("/email",)],
        },
    ),
    "list": (NAMED, "ig_username", {"SELECT owner__n FROM media": [(1,)]}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_comes_from_a_hidden_field_is_left_out(rig: Rig, snapshot: Path, case: str) -> None:
    item, hide, answers = CASES[case]
    rig.scan(POSTS, 0, [{"id": "1", **item}])
    put(rig, snapshot, *hide.split(","))
    for query, rows in answers.items():
        assert ask(snapshot, query) == rows
    views = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main' AND table_name LIKE 'media%'"
    for (view,) in ask(snapshot, views):
        assert NAME not in str(ask(snapshot, f"FROM {view}"))


def test_earlier_versions_and_counts_are_hidden_with_the_paths_they_came_from(rig: Rig, snapshot: Path) -> None:
    # Past the limit of the registry, in another form than that of versions, and mapped only now.
    many = {f"f{number:03}": number for number in range(700)}
    days: list[Item] = [{}, {"zz": {"username": NAME}, "cafe\u0301": NAME, "plays": 777}, {"plays": 778}]
    for hour, more in enumerate(days):
        # A field that is not hidden, with a key as in a path of the caption.
        other = {"about": {"text": f"text {hour}"}}
        rig.scan(POSTS, hour, [{"id": "1", "cafe\u0301": "x", **other, **many, **more}])
    viewed = ColumnMapping("view_count", Reading.COUNT, ("/plays",))
    rig.mapping = replace(BUILT_IN, columns=(*BUILT_IN.columns, viewed))
    with transaction(rig.db):
        rebuild(rig.db, rig.folder / "raw", rig.mapping, land=lambda _: None, force=False)
    put(rig, snapshot, "ig_username", "caf\u00e9", "view_count", "caption")
    shown = ask(snapshot, "SELECT about__text FROM media_history ORDER BY valid_from")
    assert shown == [("text 0",), ("text 1",), ("text 2",)]
    assert NAME not in str(ask(snapshot, "FROM media_history"))
    assert NAME not in str(ask(snapshot, "FROM core.media_versions"))
    assert ask(snapshot, "FROM media_metrics") == []


def test_a_count_whose_column_got_a_number_is_hidden_with_its_name(rig: Rig, snapshot: Path) -> None:
    mapped = ColumnMapping("views", Reading.TEXT, ("/shown",))
    rig.mapping = replace(BUILT_IN, columns=(*BUILT_IN.columns, mapped))
    rig.scan(POSTS, 0, [{"id": "1", "shown": "a text", "views": 77}, {"id": "2", "views": "many"}])
    counts = "SELECT metric, value FROM media_metrics"
    assert ask(put(rig, snapshot), counts) == [("views_2", 77)]
    assert ask(put(rig, snapshot, "views:hash"), counts) == []
    assert ask(snapshot, "SELECT strlen(views), views_2 FROM media ORDER BY ALL") == [
        (32, None), (None, None),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "plain", "e\u0301", "\ufb01 \u212b", "it's \x00 \U0001f600"])
def test_a_hash_is_the_same_in_columns_and_in_versions(text: str) -> None:
    salt = "the 'salt'"
    with duckdb.connect() as db:
        found = db.execute(f"SELECT {hash_expression('it', salt)} FROM (SELECT ? AS it)", [text]).fetchall()
    assert found == [(hash_text(text, salt),)]

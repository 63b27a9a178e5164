from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from connectors.warehouse.queries.reader import open_snapshot
from models.mapping import BUILT_IN, ColumnMapping, Reading
from models.views import views
from tests.warehouse.days import POSTS, Days, Item, ask


def columns(snapshot: Path, table: str) -> list[tuple[str, str]]:
    rows = ask(
        snapshot,
        "SELECT column_name, data_type FROM duckdb_columns()"
        f" WHERE schema_name = 'main' AND table_name = '{table}' ORDER BY column_index",
    )
    return [(str(name), str(kind)) for name, kind in rows]


def declared(table: str) -> list[str]:
    return list(views()[table].columns)


def items_of(snapshot: Path, resource: str = "media") -> dict[str, int | None]:
    rows = ask(snapshot, f"SELECT path, items FROM fields WHERE resource = '{resource}' AND first_seen_at IS NOT NULL")
    return {str(path): items for path, items in rows}


def scan(days: Days, items: Sequence[Item], *, hour: float = 0) -> None:
    days.scan(POSTS, hour, [{"id": str(number), **item} for number, item in enumerate(items)])


HOSTILE = {
    "it's": 1,
    'a"b': "x",
    "; DROP TABLE media": True,
    "🍲": [1],
    "é": {"~/": 2.5},
    "order": "2026-01-01T00:00:00Z",
}


def test_inferred_columns_follow_the_declared_ones_in_order_of_discovery_and_path(days: Days, snapshot: Path) -> None:
    scan(days, [{"z": 1, "n": None, "likes": 1}, {"y": "x", "z": 2.5}])
    scan(days, [{"n": True, "a": [1], "o": {"p": "2026-01-01T00:00:00Z"}}], hour=24)
    days.publish(snapshot)
    there = columns(snapshot, "media")
    assert [name for name, _ in there[: -len(("z", "n", "y", "a", "o__p"))]] == declared("media")
    assert there[len(declared("media")) :] == [
        ("z", "DOUBLE"), ("y", "VARCHAR"), ("a", "VARCHAR"), ("n_2", "BOOLEAN"), ("o__p", "TIMESTAMP WITH TIME ZONE"),
    ]  # fmt: skip
    assert ask(snapshot, "SELECT media_id, z, n_2, y, a FROM media ORDER BY 1") == [
        ("0", None, True, None, "[1]"), ("1", 2.5, None, "x", None),
    ]  # fmt: skip


def test_every_table_view_and_column_has_a_comment(days: Days, snapshot: Path) -> None:
    scan(days, [{**HOSTILE, "children": [{"id": "c", **HOSTILE}], "it's tags": [HOSTILE]}])
    days.publish(snapshot)
    for what in ("tables", "views", "columns"):
        without = f"FROM duckdb_{what}() WHERE schema_name = 'main' AND coalesce(comment, '') = '' AND NOT internal"
        assert ask(snapshot, without) == []
    query = "SELECT column_name, comment FROM duckdb_columns() WHERE schema_name = 'main' AND table_name = 'media'"
    comments = {str(name): comment for name, comment in ask(snapshot, query)}
    assert comments["it_s"] == "Inferred from /it's (integer)."
    assert comments["é"] == "Inferred from /é/~0~1 (number)."
    assert ask(snapshot, "SELECT comment FROM duckdb_views() WHERE view_name = 'media_it_s_tags'") == [
        ("Inferred from the list at /it's tags, one row each.",)
    ]


def test_the_tables_are_the_declared_ones_and_one_for_each_list_of_objects(days: Days, snapshot: Path) -> None:
    scan(days, [{"tags": [{"a": 1}], "children": [{"id": "c"}], "stats": {"days": [{"n": 1}]}}])
    days.publish(snapshot)
    query = "SELECT view_name FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal"
    assert {str(name) for (name,) in ask(snapshot, query)} == views().keys() | {"media_tags", "media_stats__days"}
    assert [name for name, _ in columns(snapshot, "media_tags")] == [*declared("media_children")[:4], "run_seq", "a"]


def test_fields_have_the_number_of_items_with_them(days: Days, snapshot: Path) -> None:
    scan(
        days,
        [
            {"like_count": 5, "x": 1, "caption": {"text": "a"}, "o": {"p": 1}, "n": None, "tags": [{"a": 1}, {"a": 2}]},
            {"likes": 6, "x": "y", "caption": "b", "tags": [{"b": None}], "l": []},
            {"likes": 7, "like_count": 8, "tags": [], "l": [1]},
            {"like_count": "many"},
        ],
    )
    days.publish(snapshot)
    assert items_of(snapshot) == {
        # What is empty has no field; a mapped path is one while it has a value that its column does not have.
        "/like_count": 1, "/likes": 1, "/x": 2, "/o/p": 1, "/tags": 2, "/l": 1,
    }  # fmt: skip
    assert items_of(snapshot, "media_tags") == {"/a": None}


def test_of_several_id_fields_only_one_with_a_separate_column_is_counted(days: Days, snapshot: Path) -> None:
    scan(days, [{"pk": 1}, {"pk": 2, "caption": "a"}])
    days.publish(snapshot)
    assert items_of(snapshot) == {"/pk": 2}


def test_fields_name_the_column_that_holds_them(days: Days, snapshot: Path) -> None:
    scan(days, [{"caption": "a", "x": 1, "o": {}, "tags": [{"a": 1}], "children": [{"pk": 1}]}])
    days.publish(snapshot)
    fields = "SELECT resource, path, column_name, type FROM fields"
    assert ask(snapshot, f"{fields} WHERE first_seen_at IS NOT NULL ORDER BY ALL") == [
        ("media", "/children", "children", "VARCHAR"),
        ("media", "/tags", "tags", "VARCHAR"),
        ("media", "/x", "x", "BIGINT"),
        ("media_children", "/pk", "pk", "BIGINT"),
        ("media_tags", "/a", "a", "BIGINT"),
    ]
    assert ask(
        snapshot, f"{fields} WHERE first_seen_at IS NULL AND path IN ('/caption', '/alt', '/id') ORDER BY ALL"
    ) == [
        ("media", "/caption", "caption", "VARCHAR"),
        ("media", "/id", "media_id", "VARCHAR"),
        ("media_children", "/id", "child_id", "VARCHAR"),
    ]


def test_mapped_columns_precede_inferred_ones(days: Days, snapshot: Path) -> None:
    extra = ColumnMapping("rating", Reading.NUMBER, ("/stars", "/rating"))
    child = ColumnMapping("alt_text", Reading.TEXT, ("/alt",))
    mapping = replace(BUILT_IN, columns=(*BUILT_IN.columns, extra), child_columns=(*BUILT_IN.child_columns, child))
    days.mapping = mapping
    scan(days, [{"x": 1, "rating": "4.5", "children": [{"alt": "a", "w": 1}]}, {"stars": 3}])
    days.publish(snapshot)
    assert columns(snapshot, "media")[len(declared("media")) :] == [
        ("rating", "DOUBLE"), ("children", "VARCHAR"), ("x", "BIGINT"),
    ]  # fmt: skip
    assert columns(snapshot, "media_children")[-2:] == [("alt_text", "VARCHAR"), ("w", "BIGINT")]
    assert ask(snapshot, "SELECT rating FROM media ORDER BY media_id") == [(4.5,), (3.0,)]
    assert ask(snapshot, "SELECT alt_text, w FROM media_children") == [("a", 1)]
    comments = "SELECT comment FROM duckdb_columns() WHERE schema_name = 'main'"
    assert (
        ask(snapshot, f"{comments} AND column_name IN ('rating', 'alt_text')") == [("Mapped in gramhouse.toml.",)] * 4
    )


# Items, each with the kind that its payload says.
KINDS: list[tuple[Item, str | None]] = [
    ({"media_type": "IMAGE"}, "image"),
    ({"mediaType": "video", "media_product_type": "FEED"}, "video"),
    ({"media_type": "VIDEO", "media_product_type": "REELS"}, "reel"),
    ({"product_type": "clips"}, "reel"),
    ({"type": "CAROUSEL_ALBUM", "media_product_type": "FEED"}, "carousel"),
    ({"__typename": "GraphSidecar"}, "carousel"),
    ({"media_type": "VIDEO", "kind": ["Reel"]}, "reel"),
    ({"media_type": "HOLOGRAM"}, None),
    ({"media_type": 8, "media_product_type": None}, None),
    ({"caption": "video"}, None),
]


def test_the_kind_of_an_item_is_what_its_payload_says(days: Days, snapshot: Path) -> None:
    scan(days, [item for item, _ in KINDS])
    days.publish(snapshot)
    assert ask(snapshot, "SELECT kind FROM media ORDER BY media_id") == [(kind,) for _, kind in KINDS]
    days.publish(snapshot, hide=["kind"])
    with open_snapshot(snapshot, as_published=True) as opened:
        assert "kind" not in opened.query("FROM media").columns
        assert "kind" in opened.query("FROM runs").columns

"""The views of a snapshot have the columns of this warehouse's fields."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from connectors.warehouse.storage.identity import adopt_mapping
from models.mapping import BUILT_IN, ColumnMapping, Reading
from models.views import views
from tests.warehouse.rig import POSTS, Item, Rig, ask

MAPPED = replace(
    BUILT_IN,
    columns=(*BUILT_IN.columns, ColumnMapping("rating", Reading.NUMBER, ("/stars", "/rating"))),
    child_columns=(*BUILT_IN.child_columns, ColumnMapping("alt_text", Reading.TEXT, ("/alt",))),
)


def published(rig: Rig, snapshot: Path, *scans: Sequence[Item]) -> Path:
    """Scan the posts once a day, and publish; items have their place as their id."""
    for day, items in enumerate(scans):
        rig.scan(POSTS, 24 * day, [{"id": str(number), **item} for number, item in enumerate(items)])
    return rig.publish(snapshot)


def columns(snapshot: Path, table: str) -> list[tuple[str, str]]:
    """Return the columns that a view has because fields have them, with their types."""
    found = [(name, kind) for name, kind, *_ in ask(snapshot, f"DESCRIBE {table}")]
    declared = [*views()[table if table in views() else "media_children"].columns]
    if table in views():
        assert [name for name, _ in found[: len(declared)]] == declared
    mapped = [one.column for one in BUILT_IN.columns]
    return [one for one in found if one[0] not in (*declared, *mapped)]


def test_columns_follow_in_the_order_in_which_they_were_found(rig: Rig, snapshot: Path) -> None:
    first: list[Item] = [{"z": 1, "n": None, "likes": 1}, {"y": "x", "z": 2.5}]
    published(rig, snapshot, first, [{"n": True, "a": [1], "o": {"p": "2026-01-01T00:00:00Z"}}])
    assert columns(snapshot, "media") == [
        ("z", "DOUBLE"), ("y", "VARCHAR"), ("a", "VARCHAR"), ("n_2", "BOOLEAN"), ("o__p", "TIMESTAMP WITH TIME ZONE"),
    ]  # fmt: skip
    assert ask(snapshot, "SELECT media_id, z, n_2, y, a FROM media ORDER BY 1") == [
        ("0", None, True, None, "[1]"), ("1", 2.5, None, "x", None),
    ]  # fmt: skip


def test_mapped_columns_come_first_and_elements_of_lists_have_views(rig: Rig, snapshot: Path) -> None:
    adopt_mapping(rig.db, MAPPED)
    rig.publish(snapshot)
    assert columns(snapshot, "media")[0] == ("rating", "DOUBLE"), "before any item"
    rig.mapping = MAPPED
    children = [{"id": "7", "media_type": "IMAGE", "alt": "a", "w": 1}, {"id": 8, "size": {"width": 5}}]
    tags = [{"a": 1}, {"a": 2}]
    items: list[Item] = [
        {"x": 1, "rating": "4.5", "children": {"data": children}, "stats": {"days": tags}},
        {"stars": 3, "tags": tags, "metrics": tags, "at": tags},
    ]  # fmt: skip
    published(rig, snapshot, items)
    assert columns(snapshot, "media")[:2] == [("rating", "DOUBLE"), ("children__data", "VARCHAR")]
    assert columns(snapshot, "media_children") == [("alt_text", "VARCHAR"), ("size__width", "BIGINT"), ("w", "BIGINT")]
    assert columns(snapshot, "media_stats__days") == columns(snapshot, "media_tags") == [("a", "BIGINT")]
    assert ask(snapshot, "SELECT rating FROM media ORDER BY media_id") == [(4.5,), (3.0,)]
    described = "SELECT comment FROM duckdb_columns() WHERE column_name IN ('rating', 'alt_text') AND comment NOT NULL"
    assert {*ask(snapshot, described)} == {("Mapped from /stars, /rating.",), ("Mapped from /alt.",)}
    assert ask(snapshot, "SELECT position, child_id, media_type, alt_text, w, size__width FROM media_children") == [
        (0, "7", "IMAGE", "a", 1, None),
        (1, "8", None, None, None, 5),
    ]
    assert ask(snapshot, "SELECT media_id, position, a FROM media_tags") == [("1", 0, 1), ("1", 1, 2)]
    found = {name for (name,) in ask(snapshot, "SELECT view_name FROM duckdb_views() WHERE schema_name = 'main'")}
    # Lists that are named like our own views and macros do not take their places.
    assert found >= views().keys() | {"media_tags", "media_stats__days", "media_metrics_2", "media_at_2"}
    assert columns(snapshot, "media_metrics") == []
    # As a rebuild does, if the path is mapped now.
    rig.db.execute("DELETE FROM core.fields WHERE path = '/tags'")
    rig.publish(snapshot)
    assert ask(snapshot, "FROM duckdb_views() WHERE view_name = 'media_tags'") == []


HOSTILE = {
    "it's": 1,
    'a"b': "x",
    "; DROP TABLE media": True,
    "\U0001f372": [1],
    "é": {"~/": 2.5},
    "order": "2026-01-01T00:00:00Z",
}


def test_every_view_and_column_has_a_comment(rig: Rig, snapshot: Path) -> None:
    published(rig, snapshot, [{**HOSTILE, "children": [{"id": "c", **HOSTILE}], "it's tags": [HOSTILE]}])
    for what in ("views", "columns"):
        without = f"FROM duckdb_{what}() WHERE schema_name = 'main' AND coalesce(comment, '') = '' AND NOT internal"
        assert ask(snapshot, without) == []
    query = "SELECT column_name, comment FROM duckdb_columns() WHERE schema_name = 'main' AND table_name = 'media'"
    comments = {str(name): comment for name, comment in ask(snapshot, query)}
    assert comments["it_s"] == "Inferred from /it's (integer)."
    assert comments["é"] == "Inferred from /é/~0~1 (number)."
    assert ask(snapshot, "SELECT comment FROM duckdb_views() WHERE view_name = 'media_it_s_tags'") == [
        ("Inferred from the list at /it's tags, one row each.",)
    ]


def test_fields_name_their_column_and_the_number_of_items_with_them(rig: Rig, snapshot: Path) -> None:
    items: list[Item] = [
        {"like_count": 5, "x": 1, "caption": {"text": "a"}, "o": {"p": 1}, "n": None, "tags": [{"a": 1}, {"a": 2}]},
        {"likes": 6, "x": "y", "caption": "b", "tags": [{"b": None}], "l": []},
        {"likes": 7, "like_count": 8, "tags": [], "l": [1]},
        {"like_count": "many", "children": [{"pk": 1}]},
    ]
    published(rig, snapshot, items)
    fields = "SELECT resource, path, column_name, type, items FROM fields"
    assert ask(snapshot, f"{fields} WHERE first_seen_at IS NOT NULL ORDER BY ALL") == [
        # What is empty has no field; a mapped path is one while it has a value that its column does not have.
        ("media", "/children", "children", "VARCHAR", 1),
        ("media", "/l", "l", "VARCHAR", 1),
        ("media", "/like_count", "like_count_2", "VARCHAR", 1),
        ("media", "/likes", "likes", "BIGINT", 1),
        ("media", "/o/p", "o__p", "BIGINT", 1),
        ("media", "/tags", "tags", "VARCHAR", 2),
        ("media", "/x", "x", "VARCHAR", 2),
        ("media_children", "/pk", "pk", "BIGINT", None),
        ("media_tags", "/a", "a", "BIGINT", None),
    ]
    mapped = "first_seen_at IS NULL AND path IN ('/caption', '/alt', '/id')"
    assert ask(snapshot, f"{fields} WHERE {mapped} ORDER BY ALL") == [
        ("media", "/caption", "caption", "VARCHAR", None),
        ("media", "/id", "media_id", "VARCHAR", None),
        ("media_children", "/id", "child_id", "VARCHAR", None),
    ]


def test_versions_have_the_columns_of_fields_with_the_type_that_these_have_now(rig: Rig, snapshot: Path) -> None:
    first = {"caption": "one", "shortCode": "x", "tags": ["a"], "size": 1}
    published(rig, snapshot, [first])
    published(rig, snapshot, [first], [{"caption": "two", "shortCode": "y", "tags": ["b"], "size": "large"}])
    history = "SELECT caption, short_code, tags, size, valid_to IS NULL FROM media_history ORDER BY valid_from"
    assert ask(snapshot, history) == [("one", "x", '["a"]', "1", False), ("two", "y", '["b"]', "large", True)]
    assert ask(snapshot, "SELECT columns FROM changes ORDER BY changed_at") == [
        (None,), (["caption", "short_code", "size", "tags"],),
    ]  # fmt: skip


def test_a_mapped_column_takes_the_name_of_a_field_of_forgotten_items(rig: Rig, snapshot: Path) -> None:
    rig.scan(POSTS, 0, [{"id": "1", "rating": "many", "tags": [{"a": 1}]}])
    rig.db.execute("DELETE FROM core.media")
    adopt_mapping(rig.db, MAPPED)
    rig.mapping = MAPPED
    rig.scan(POSTS, 1, [{"id": "1", "stars": 3}])
    rig.publish(snapshot)
    assert ask(snapshot, "SELECT rating FROM media") == [(3.0,)]
    assert ask(snapshot, "FROM fields WHERE path LIKE '/tags%'") == []


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


def test_the_kind_of_an_item_is_what_its_payload_says(rig: Rig, snapshot: Path) -> None:
    published(rig, snapshot, [item for item, _ in KINDS])
    assert ask(snapshot, "SELECT kind FROM media ORDER BY media_id") == [(kind,) for _, kind in KINDS]

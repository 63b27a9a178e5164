from datetime import UTC, datetime

from models.schema.fields import (
    AND_MORE,
    MEDIA,
    MOST_COLUMNS,
    MOST_FIELDS,
    FieldObservation,
    OwnNames,
    Registry,
    register,
)
from models.schema.json_types import JsonType
from models.schema.mapping import ColumnMapping, Mapping, Reading
from models.schema.table_schemas import CHILDREN, Metric, TableSchema, child_table, history, table_schemas

T0 = datetime(2026, 3, 1, tzinfo=UTC)

CAPTION = ColumnMapping("caption", Reading.TEXT, ("/caption/text", "/caption"))
LIKES = ColumnMapping("like_count", Reading.COUNT, ("/like_count", "/likes"))
CHILD_ID = ColumnMapping("child_id", Reading.TEXT, ("/id", "/pk"))
MAPPING = Mapping(
    media_id=("/id", "/pk"),
    columns=(CAPTION, LIKES),
    children=("/children/data", "/children"),
    child_columns=(CHILD_ID,),
    count_words=("saves",),
    volatile_parameters=("oe",),
)
OWN = OwnNames(
    {MEDIA: {"media_id", "caption", "like_count"}, CHILDREN: {"child_id"}}, {"media", CHILDREN}, MAPPING.children
)


def registry(*seen: tuple[str, JsonType], resource: str = MEDIA, known: Registry | None = None) -> Registry:
    return register(known or {}, [FieldObservation(resource, path, json_type, T0) for path, json_type in seen], OWN)


def columns(schema: TableSchema) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(column.name, column.type, column.paths) for column in schema.columns]


def test_without_fields_there_are_the_canonical_columns() -> None:
    media, children = table_schemas(MAPPING, {})
    assert (media.table, columns(media)) == (MEDIA, [("caption", "VARCHAR", ()), ("like_count", "BIGINT", ())])
    assert (children.table, columns(children), children.lists) == (CHILDREN, [("child_id", "VARCHAR", ())], ())


def test_a_canonical_column_reads_the_candidate_paths_found_in_their_order() -> None:
    known = registry(("/likes", JsonType.INTEGER), ("/caption", JsonType.TEXT), ("/like_count", JsonType.NULL))
    assert columns(table_schemas(MAPPING, known)[0]) == [
        ("caption", "VARCHAR", ("/caption",)),
        ("like_count", "BIGINT", ("/like_count", "/likes")),
    ]


def test_a_discovered_column_reads_its_only_path() -> None:
    known = registry(
        ("/z", JsonType.INTEGER), ("/owner", JsonType.OBJECT), ("/owner/name", JsonType.TEXT), ("/n", JsonType.NULL)
    )
    media = table_schemas(MAPPING, known)[0]
    assert columns(media)[2:] == [("z", "BIGINT", ("/z",)), ("owner__name", "VARCHAR", ("/owner/name",))]
    assert [column.field for column in media.columns[2:]] == [known[MEDIA, "/z"], known[MEDIA, "/owner/name"]]
    assert [column.mapping for column in media.columns] == [CAPTION, LIKES, None, None]


def test_a_candidate_has_a_column_of_its_own_once_it_would_be_read_away() -> None:
    known = registry(
        ("/id", JsonType.TEXT), ("/pk", JsonType.INTEGER), ("/likes", JsonType.INTEGER), ("/like_count", JsonType.TEXT)
    )
    assert len(table_schemas(MAPPING, known)[0].columns) == 2
    more = registry(
        ("/pk", JsonType.SHADOWED), ("/likes", JsonType.SHADOWED), ("/like_count", JsonType.UNREADABLE), known=known
    )
    assert columns(table_schemas(MAPPING, more)[0])[2:] == [
        ("pk", "BIGINT", ("/pk",)),
        ("likes", "BIGINT", ("/likes",)),
        ("like_count_2", "VARCHAR", ("/like_count",)),
    ]
    assert (
        len(
            table_schemas(MAPPING, registry(("/caption", JsonType.OBJECT), ("/caption", JsonType.UNREADABLE)))[
                0
            ].columns
        )
        == 2
    )


def test_fields_beyond_the_limit_have_no_column_and_no_table() -> None:
    many = [(f"/f{number}", JsonType.INTEGER) for number in range(MOST_FIELDS + 1)]
    media, *rest = table_schemas(MAPPING, registry(*many))
    assert len(media.columns) == 2 + MOST_COLUMNS
    known = registry(
        *many[:MOST_COLUMNS], ("/tags", JsonType.ROWS), ("/children", JsonType.ROWS), ("/saves", JsonType.INTEGER)
    )
    media, *rest = table_schemas(MAPPING, known)
    assert [(schema.table, schema.lists) for schema in rest] == [(CHILDREN, ("/children",))]
    assert len(media.metrics) == 1
    assert (MEDIA, AND_MORE) not in known


def test_each_list_of_objects_has_a_table_and_lists_of_children_share_one() -> None:
    known = registry(
        ("/tags", JsonType.ROWS),
        ("/children", JsonType.ROWS),
        ("/children/data", JsonType.ROWS),
        ("/l", JsonType.TEXTS),
    )
    known = registry(("/name", JsonType.TEXT), ("/pk", JsonType.INTEGER), resource="media_tags", known=known)
    known = registry(("/pk", JsonType.INTEGER), ("/w", JsonType.NUMBER), resource=CHILDREN, known=known)
    media, children, tags = table_schemas(MAPPING, known)
    assert columns(media)[2:] == [("l", "VARCHAR[]", ("/l",))]
    assert (children.table, children.lists) == (CHILDREN, ("/children/data", "/children"))
    assert columns(children) == [("child_id", "VARCHAR", ("/pk",)), ("w", "DOUBLE", ("/w",))]
    assert (tags.table, tags.lists) == ("media_tags", ("/tags",))
    assert columns(tags) == [("name", "VARCHAR", ("/name",)), ("pk", "BIGINT", ("/pk",))]
    assert children.metrics == tags.metrics == ()


def test_a_list_of_objects_that_was_something_else_too_has_both() -> None:
    media, _, tags = table_schemas(MAPPING, registry(("/tags", JsonType.ROWS), ("/tags", JsonType.TEXT)))
    assert columns(media)[2:] == [("tags", "VARCHAR", ("/tags",))]
    assert tags.lists == ("/tags",)


def test_the_table_of_a_list() -> None:
    known = registry(("/tags", JsonType.ROWS), ("/children", JsonType.ROWS), ("/a", JsonType.TEXT))
    assert [child_table(field, MAPPING) for field in known.values()] == ["media_tags", CHILDREN, None]


def test_counts_are_the_canonical_ones_and_those_with_a_count_word() -> None:
    known = registry(
        ("/saves", JsonType.INTEGER), ("/viewCount", JsonType.NUMBER), ("/stats", JsonType.OBJECT),
        ("/stats/saves", JsonType.TEXT),
        ("/likes", JsonType.INTEGER), ("/saves_total", JsonType.INTEGER), ("/play_count", JsonType.NULL),
        ("/account", JsonType.INTEGER), ("/counts", JsonType.ROWS),
    )  # fmt: skip
    known = registry(("/saves", JsonType.INTEGER), resource="media_counts", known=known)
    media = table_schemas(MAPPING, known)[0]
    by_name = {column.name: column for column in media.columns}
    assert media.metrics == (
        Metric("like_count", None, by_name["like_count"]),
        Metric("saves", "/saves", by_name["saves"]),
        Metric("view_count", "/viewCount", by_name["view_count"]),
        Metric("stats__saves", "/stats/saves", by_name["stats__saves"]),
    )


def test_versions_have_the_columns_of_content() -> None:
    known = registry(
        ("/mood", JsonType.TEXT),
        ("/saves", JsonType.INTEGER),
        ("/view_count", JsonType.INTEGER),
        ("/view_count", JsonType.TEXT),
        ("/thumbnail_url", JsonType.TEXT),
        ("/site_url", JsonType.INTEGER),
        ("/has_url", JsonType.BOOLEAN),
    )
    versions = history(table_schemas(MAPPING, known)[0], MAPPING)
    assert versions.table == "media_superseded"
    assert [(column.name, column.type) for column in versions.columns] == [
        ("caption", "VARCHAR"),
        ("mood", "VARCHAR"),
        ("view_count", "VARCHAR"),
        ("site_url", "BIGINT"),
        ("has_url", "BOOLEAN"),
    ]

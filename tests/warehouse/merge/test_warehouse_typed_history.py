"""The columns of earlier versions have the types of the items' columns and change with them."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

from models.mapping import ColumnMapping, Reading
from models.views import views
from tests.warehouse.rig import POSTS, TITLE, Rig, Row, ask, minute

RATED = replace(TITLE, columns=(*TITLE.columns, ColumnMapping("rating", Reading.NUMBER, ("/stars",))))


def versions(rig: Rig, *columns: str) -> list[Row]:
    listed = ", ".join(f'"{name}"' for name in columns)
    return rig.rows(f"SELECT {listed} FROM core.media_superseded ORDER BY valid_from, valid_to")


def kinds(rig: Rig) -> dict[str, str]:
    rows = rig.rows(
        "SELECT column_name, data_type FROM duckdb_columns()"
        " WHERE schema_name = 'core' AND table_name = 'media_superseded'"
    )
    return {str(name): str(kind) for name, kind in rows}


def test_a_version_has_its_values_in_typed_columns(rig: Rig) -> None:
    time = "2026-01-02T03:04:05Z"
    rig.days(
        {"caption": "old", "media_type": "IMAGE", "permalink": "https://x/p/1", "timestamp": time, "place": 7},
        {"caption": "new", "media_type": "VIDEO", "permalink": "https://x/p/2", "place": 8, "likes": 5},
    )
    assert versions(rig, "caption", "media_type", "permalink", "published_at", "place", "overflow") == [
        ("old", "IMAGE", "https://x/p/1", datetime.fromisoformat(time), 7, None)
    ]


def test_versions_have_no_columns_for_counts_and_media_addresses(rig: Rig) -> None:
    counts = {"likes": 1, "saves": 2, "url": "https://x/1.jpg", "thumbnail_url": "https://x/2.jpg"}
    rig.days({"caption": "a", "mood": "good", **counts}, {"caption": "b", **counts})
    there = kinds(rig)
    assert "mood" in there
    assert not there.keys() & {"like_count", "comments_count", "media_url", "saves", "thumbnail_url"}


def test_a_field_that_is_new_is_a_column_of_earlier_versions_too(rig: Rig) -> None:
    rig.days({"caption": "a"}, {"caption": "b"}, {"caption": "b", "mood": "good"})
    assert versions(rig, "caption", "mood") == [("a", None), ("b", None)]
    rig.days({"caption": "b"})
    assert versions(rig, "caption", "mood") == [("a", None), ("b", None), ("b", "good")]


def test_a_column_that_widens_is_widened_in_earlier_versions(rig: Rig) -> None:
    rig.days({"caption": "a", "n": 7}, {"caption": "b", "n": 8}, {"caption": "c", "n": 0.5})
    assert (kinds(rig)["n"], versions(rig, "n")) == ("DOUBLE", [(7.0,), (8.0,)])
    rig.days({"caption": "d", "n": "many"})
    assert (kinds(rig)["n"], versions(rig, "n")) == ("VARCHAR", [("7",), ("8",), ("0.5",)])


def test_a_column_with_media_addresses_is_no_longer_content(rig: Rig) -> None:
    rig.days({"caption": "a", "cover_url": 7}, {"caption": "b", "cover_url": 7})
    assert versions(rig, "cover_url") == [(7,)]
    rig.days({"caption": "c", "cover_url": "https://x/1.jpg"})
    assert "cover_url" not in kinds(rig)
    assert versions(rig, "caption") == [("a",), ("b",)]


def test_a_field_called_like_a_version_s_own_column_gets_another_name(rig: Rig, snapshot: Path) -> None:
    names = ("valid_from", "valid_to", "raw_landed", "overflow", "content_changed_at")
    rig.days({"caption": "a", **dict.fromkeys(names, 1)}, {"caption": "b", **dict.fromkeys(names, 2)})
    renamed = [f"{name}_2" for name in names]
    assert versions(rig, *renamed) == [(1,) * len(names)]
    rig.publish(snapshot)
    asked = f"SELECT valid_to IS NULL, {', '.join(renamed)} FROM media_history ORDER BY 1"
    assert ask(snapshot, asked) == [(False, *(1,) * len(names)), (True, *(2,) * len(names))]


def test_values_without_a_column_are_in_the_overflow_of_the_version(rig: Rig) -> None:
    many = {f"f{number:03}": number for number in range(310)}
    rig.days({"caption": "a", **many}, {"caption": "b", **many})
    ((overflow,),) = versions(rig, "overflow")
    assert '"/f309":309' in overflow


def test_a_rebuild_reads_versions_by_the_other_mapping_and_keeps_their_time(rig: Rig) -> None:
    rig.days(
        {"caption": "a", "title": "A", "stars": "4.5"},
        {"caption": "b", "title": "B", "stars": 3},
        {"caption": "c", "title": "C"},
    )
    before = versions(rig, "account_id", "surface", "media_id", "valid_from", "valid_to")
    assert versions(rig, "caption", "title", "stars") == [("a", "A", "4.5"), ("b", "B", "3")]
    rig.rebuild(RATED)
    assert versions(rig, "caption", "rating", "caption_2") == [("A", 4.5, "a"), ("B", 3.0, "b")]
    assert versions(rig, "account_id", "surface", "media_id", "valid_from", "valid_to") == before
    assert not kinds(rig).keys() & {"title"}
    rig.rebuild()
    assert versions(rig, "caption", "title", "stars") == [("a", "A", "4.5"), ("b", "B", "3")]
    rig.days({"caption": "d"})
    assert versions(rig, "caption", "title")[2:] == [("c", "C")]


def test_the_history_in_the_snapshot_has_all_versions_and_column_comments(rig: Rig, snapshot: Path) -> None:
    rig.scan(POSTS, "p", 0, [{"id": "1", "caption": "a", "mood": "good", "likes": 1}, {"id": "2", "likes": 1}])
    rig.scan(POSTS, "q", 24, [{"id": "1", "caption": "b", "likes": 2}, {"id": "2", "likes": 3}])
    rig.publish(snapshot)
    since, until = minute(0), minute(24)
    assert ask(snapshot, "SELECT media_id, valid_from, valid_to, caption, mood FROM media_history ORDER BY 1, 2") == [
        ("1", since, until, "a", "good"), ("1", until, None, "b", None), ("2", since, None, None, None),
    ]  # fmt: skip
    described = "SELECT column_name, comment FROM duckdb_columns() WHERE schema_name = 'main' AND table_name = '{}'"
    for table in ("media_history", "media_superseded"):
        found: dict[str, str] = dict(ask(snapshot, described.format(table)))
        assert found == {**views()[table].columns, "mood": "Inferred from /mood (text)."}

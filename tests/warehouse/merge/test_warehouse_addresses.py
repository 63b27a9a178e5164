from collections.abc import Sequence

import pytest

from connectors.warehouse.ingest import arrow_decoder
from connectors.warehouse.ingest.layout import Layout
from connectors.warehouse.maintenance.rebuild import rebuild_stored
from models.schema.mapping_built_in import BUILT_IN
from tests.warehouse.house import POSTS, House, Item

SHOWN = "SELECT media_url, thumbnail_url, caption FROM core.media"


def item(signature: str, caption: str = "Brot", **more: object) -> Item:
    urls = {"media_url": f"https://cdn/1.jpg?sig={signature}", "thumbnail_url": f"https://cdn/t.jpg?sig={signature}"}
    child = {"id": "1-1", "media_type": "IMAGE", "media_url": f"https://cdn/2.jpg?sig={signature}"}
    return {"id": "1", "caption": caption, **urls, "children": {"data": [child]}, **more}


def urls(signature: str) -> tuple[str, str]:
    return f"https://cdn/1.jpg?sig={signature}", f"https://cdn/t.jpg?sig={signature}"


def child_urls(house: House) -> list[str]:
    return [url for (url,) in house.rows("SELECT media_url FROM core.media_children ORDER BY position")]


def hashes(house: House) -> Sequence[object]:
    return house.rows("SELECT hex(payload_hash) FROM core.media")


def test_the_newest_address_is_kept_and_is_no_version(house: House) -> None:
    house.scan(POSTS, "first", 0, [item("a")])
    before = hashes(house)
    counts = house.scan(POSTS, "second", 24, [item("b")])
    assert counts.untouched
    assert house.row(SHOWN) == (*urls("b"), "Brot")
    assert child_urls(house) == ["https://cdn/2.jpg?sig=b"]
    assert hashes(house) != before
    assert house.rows("SELECT * FROM core.media_superseded") == []
    assert house.value("SELECT sum(rows) FROM ops.raw_parts") == 1


def test_an_item_that_came_as_the_last_time_is_not_decoded(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.scan(POSTS, "first", 0, [item("a")])
    house.scan(POSTS, "second", 24, [item("b")])
    decoded: list[bytes] = []
    read = arrow_decoder.read

    def noted(raw: Sequence[bytes], layout: Layout) -> arrow_decoder.ArrowItems | None:
        decoded.extend(raw)
        return read(raw, layout)

    monkeypatch.setattr(arrow_decoder, "read", noted)
    house.scan(POSTS, "third", 48, [item("b")])
    assert decoded == []
    assert house.row(SHOWN) == (*urls("b"), "Brot")
    house.scan(POSTS, "fourth", 72, [item("a")])
    assert len(decoded) == 1
    assert house.row(SHOWN) == (*urls("a"), "Brot")


def test_of_several_sightings_in_one_merge_the_last_address_counts(house: House) -> None:
    house.scan(POSTS, "first", 0, [item("a")], [item("b", "Kuchen")], [item("c", "Kuchen")])
    assert house.row(SHOWN) == (*urls("c"), "Kuchen")
    assert child_urls(house) == ["https://cdn/2.jpg?sig=c"]


def test_an_item_that_returns_has_its_newest_address(house: House) -> None:
    house.scan(POSTS, "first", 0, [item("a"), {"id": "2"}, {"id": "3"}])
    house.scan(POSTS, "second", 24, [{"id": "2"}, {"id": "3"}])
    assert house.value("SELECT removed_at IS NOT NULL FROM core.media WHERE media_id = '1'")
    counts = house.scan(POSTS, "third", 48, [item("b"), {"id": "2"}, {"id": "3"}])
    assert counts.returned == 1
    assert house.row(f"{SHOWN} WHERE media_id = '1'") == (*urls("b"), "Brot")


def test_after_a_rebuild_the_next_scan_brings_the_newest_address_again(house: House) -> None:
    house.scan(POSTS, "first", 0, [item("a")])
    house.scan(POSTS, "second", 24, [item("b")])
    with house.connection.begin():
        rebuild_stored(house.connection, BUILT_IN)
    assert house.scan(POSTS, "third", 48, [item("b")]).untouched
    assert house.row(SHOWN) == (*urls("b"), "Brot")

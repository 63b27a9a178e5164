from collections.abc import Sequence

import pytest

from connectors.warehouse.ingest import arrow_decoder
from connectors.warehouse.ingest.layout import Layout
from connectors.warehouse.maintenance.rebuild import rebuild_stored
from models.schema.mapping_built_in import BUILT_IN
from tests.warehouse.rig import ON_WORKER, POSTS, Item, Rig

SHOWN = "SELECT media_url, thumbnail_url, caption FROM core.media"


def item(signature: str, caption: str = "Brot", **more: object) -> Item:
    urls = {"media_url": f"https://cdn/1.jpg?sig={signature}", "thumbnail_url": f"https://cdn/t.jpg?sig={signature}"}
    child = {"id": "1-1", "media_type": "IMAGE", "media_url": f"https://cdn/2.jpg?sig={signature}"}
    return {"id": "1", "caption": caption, **urls, "children": {"data": [child]}, **more}


def urls(signature: str) -> tuple[str, str]:
    return f"https://cdn/1.jpg?sig={signature}", f"https://cdn/t.jpg?sig={signature}"


def child_urls(rig: Rig) -> list[str]:
    return [url for (url,) in rig.rows("SELECT media_url FROM core.media_children ORDER BY position")]


def hashes(rig: Rig) -> Sequence[object]:
    return rig.rows("SELECT hex(payload_hash) FROM core.media")


def test_the_newest_address_is_kept_without_a_new_version(rig: Rig) -> None:
    rig.scan(POSTS, "first", 0, [item("a")])
    before = hashes(rig)
    counts = rig.scan(POSTS, "second", 24, [item("b")])
    assert counts.untouched
    assert rig.row(SHOWN) == (*urls("b"), "Brot")
    assert child_urls(rig) == ["https://cdn/2.jpg?sig=b"]
    assert hashes(rig) != before
    assert rig.rows("SELECT * FROM core.media_superseded") == []
    assert rig.value("SELECT sum(rows) FROM ops.raw_parts") == 1


@pytest.mark.skipif(ON_WORKER, reason="the worker decodes in this process too")
def test_an_item_with_unchanged_bytes_is_not_decoded(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.scan(POSTS, "first", 0, [item("a")])
    rig.scan(POSTS, "second", 24, [item("b")])
    decoded: list[bytes] = []
    read = arrow_decoder.read

    def noted(raw: Sequence[bytes], layout: Layout) -> arrow_decoder.ArrowItems | None:
        decoded.extend(raw)
        return read(raw, layout)

    monkeypatch.setattr(arrow_decoder, "read", noted)
    rig.scan(POSTS, "third", 48, [item("b")])
    assert decoded == []
    assert rig.row(SHOWN) == (*urls("b"), "Brot")
    rig.scan(POSTS, "fourth", 72, [item("a")])
    assert len(decoded) == 1
    assert rig.row(SHOWN) == (*urls("a"), "Brot")


def test_the_last_address_of_several_sightings_in_one_merge_is_used(rig: Rig) -> None:
    rig.scan(POSTS, "first", 0, [item("a")], [item("b", "Kuchen")], [item("c", "Kuchen")])
    assert rig.row(SHOWN) == (*urls("c"), "Kuchen")
    assert child_urls(rig) == ["https://cdn/2.jpg?sig=c"]


def test_an_item_that_returns_has_its_newest_address(rig: Rig) -> None:
    rig.scan(POSTS, "first", 0, [item("a"), {"id": "2"}, {"id": "3"}])
    rig.scan(POSTS, "second", 24, [{"id": "2"}, {"id": "3"}])
    assert rig.value("SELECT removed_at IS NOT NULL FROM core.media WHERE media_id = '1'")
    counts = rig.scan(POSTS, "third", 48, [item("b"), {"id": "2"}, {"id": "3"}])
    assert counts.returned == 1
    assert rig.row(f"{SHOWN} WHERE media_id = '1'") == (*urls("b"), "Brot")


def test_after_a_rebuild_the_next_scan_brings_the_newest_address_again(rig: Rig) -> None:
    rig.scan(POSTS, "first", 0, [item("a")])
    rig.scan(POSTS, "second", 24, [item("b")])
    with rig.connection.begin():
        rebuild_stored(rig.connection, BUILT_IN)
    assert rig.scan(POSTS, "third", 48, [item("b")]).untouched
    assert rig.row(SHOWN) == (*urls("b"), "Brot")

"""Parts: what a worker decoded equals what the loader would have decoded."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from connectors.warehouse.ingest.decode import Decoder
from connectors.warehouse.ingest.landing.page_commit import POSITION_BITS, TypedPart
from connectors.warehouse.ingest.split import hash_of
from connectors.warehouse.ingest.typed_part import PageItems, encode_items, read_items
from connectors.warehouse.storage.errors import WarehouseUnusable
from flows.cluster.typed_parts import TypedPartWriter
from models.schema.fields import Registry
from models.schema.json_types import JsonType
from models.schema.mapping import Mapping
from models.schema.mapping_built_in import BUILT_IN
from tests.warehouse.ingest.test_warehouse_decode import ITEMS, OWN, T0, plain, raw, read_carefully
from tests.warehouse.rig import POSTS, Rig, Scan, at

ANOTHER = Mapping(("/key",), (), (), (), (), ())


def page(index: int, items: Sequence[bytes], unsent: Sequence[int] = ()) -> PageItems:
    sent = [b"" if position in unsent else one for position, one in enumerate(items)]
    return PageItems(index, T0, sent, [hash_of(one) for one in items])


def part_of(*pages: PageItems, registry: Registry | None = None) -> TypedPart:
    return TypedPart(6, encode_items(pages, registry or {}, BUILT_IN, OWN)[0])


def key(seq: int, position: int) -> int:
    return (seq << POSITION_BITS) + position


def types(registry: Registry) -> dict[tuple[str, str], set[JsonType]]:
    return {path: set(field.json_types) for path, field in registry.items()}


@settings(max_examples=100)
@given(ITEMS, ITEMS)
def test_the_loader_reads_the_values_that_a_worker_decoded(
    before: list[dict[str, Any]], now: list[dict[str, Any]]
) -> None:
    lines = raw([*before, *now])
    first, registry = encode_items([page(0, raw(before))], {}, BUILT_IN, OWN)
    second, _ = encode_items([page(0, raw(now))], registry, BUILT_IN, OWN)
    decoder = Decoder(BUILT_IN, {}, OWN, lambda _: T0)
    for data in (first, second):
        read_items(TypedPart(0, data), BUILT_IN).decode(decoder, stored=())
    found = decoder.finish()
    rows = [{**row, "order_key": 0} for row in plain(found.media)]
    wanted = [{**row, "order_key": 0} for row in read_carefully(lines, found.layout)["media"]]
    assert sorted(map(repr, rows)) == sorted(map(repr, wanted))


@settings(max_examples=50)
@given(ITEMS)
def test_the_fields_found_on_a_worker_are_those_found_here(items: list[dict[str, Any]]) -> None:
    lines = raw(items)
    here = Decoder(BUILT_IN, {}, OWN, lambda _: T0)
    here.add(range(len(lines)), lines)
    there = Decoder(BUILT_IN, {}, OWN, lambda _: T0)
    read_items(part_of(page(0, lines)), BUILT_IN).decode(there, stored=())
    assert types(there.finish().registry) == types(here.finish().registry)


def test_items_are_numbered_by_the_landing_of_their_page() -> None:
    items = raw([{"id": "1"}, {"id": "2"}])
    found = read_items(part_of(page(0, items), page(3, items[:1])), BUILT_IN)
    assert found.order_keys.to_pylist() == [key(7, 0), key(7, 1), key(10, 0)]
    assert found.hashes.to_pylist() == [hash_of(one) for one in (*items, items[0])]


def test_items_that_were_not_sent_or_are_stored_are_not_decoded() -> None:
    items = raw([{"id": str(number)} for number in range(4)])
    found = read_items(part_of(page(0, items, unsent=[1])), BUILT_IN)
    decoder = Decoder(BUILT_IN, {}, OWN, lambda _: T0)
    texts = found.decode(decoder, stored={key(7, 3)})
    assert texts["payload"].to_pylist() == ['{"id": "0"}', '{"id": "2"}']
    assert [row["order_key"] for row in plain(decoder.finish().media)] == [key(7, 0), key(7, 2)]
    assert found.texts_of({key(7, 0), key(7, 1)})["order_key"].to_pylist() == [key(7, 0)]


def test_values_decoded_with_another_mapping_are_decoded_again() -> None:
    found = read_items(part_of(page(0, raw([{"id": "1", "key": "2"}]))), ANOTHER)
    assert found.decoded is None


def test_a_part_of_another_version_is_refused_in_one_line() -> None:
    other = pa.record_batch({"rows": [1]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, other.schema) as writer:
        writer.write_batch(other)
    for data in (b"", b"no Arrow", sink.getvalue().to_pybytes()):
        with pytest.raises(WarehouseUnusable, match="Fix: install the same version everywhere"):
            read_items(TypedPart(0, data), BUILT_IN)


def test_values_that_do_not_fit_into_the_loader_s_columns_are_decoded_again() -> None:
    part = part_of(page(0, raw([{"id": "1", "n": 5}])))
    decoder = Decoder(BUILT_IN, {}, OWN, lambda _: T0)
    decoder.add([1], raw([{"id": "0", "n": {"deep": 1}, "m": [{"a": 1}]}]))
    read_items(part, BUILT_IN).decode(decoder, stored=())
    found = decoder.finish()
    name = next(cell.name for cell in found.layout.media.cells.values() if cell.path == "/n")
    assert {row["order_key"]: row[name] for row in plain(found.media)}[key(7, 0)] == "5"


def test_an_unsent_item_that_is_not_stored_is_reported_and_removes_nothing(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.scan(POSTS, "first", 0, [{"id": "1"}])
    deleted = hash_of(b'{"id":"2"}')
    for hour in (24, 48):
        scan = Scan(POSTS, f"scan-{hour}", at(hour))
        rig.land(scan.page([{"id": "2"}], at(hour), last=True), worker=TypedPartWriter(BUILT_IN, {}, {POSTS: deleted}))
        rig.merge()
    assert rig.rows("SELECT media_id, removed_at FROM core.media") == [("1", None)]
    assert "1 items of workers are not stored any more" in caplog.text

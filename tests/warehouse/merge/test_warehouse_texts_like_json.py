"""A text that is spelled like an object or a list is a text, also in a field that has objects or lists elsewhere."""

from dataclasses import replace

import pytest

from connectors.warehouse.schema.not_cast import values_not_cast
from connectors.warehouse.storage.connection import Connection
from models.mapping import BUILT_IN
from tests.warehouse.merge.test_warehouse_batches import rows_after
from tests.warehouse.rig import POSTS, Item, Rig, Scan, at

NESTED: Item = {"id": "1", "caption": {"text": "a"}, "note": {"k": 1}, "likes": {"count": 5}}

# A mapped text, a field that is not mapped, and one of which another column shows the values.
NAMES = ("caption", "note", "likes")

# A text, and what it is on the next day.
EDITED = [
    ('{"hello": 1}', '{"bye": 1}'),
    ('{"hello', '{"bye'),
    ('{"hello"} world', '{"bye"} world'),
    ('{"k":1}', '{"k":2}'),
    ('{"url":"https://a.example/1"}', '{"url":"https://a.example/2"}'),
    ('{"count":5}', '{"count":6}'),
]


@pytest.mark.parametrize(("before", "after"), EDITED)
def test_every_edit_of_a_text_like_an_object_is_a_version(rig: Rig, before: str, after: str) -> None:
    for hour, text in ((0, before), (24, after)):
        items = [{"id": name, "like_count": 5, name: text} for name in NAMES]
        rig.scan(POSTS, f"scan-{hour}", hour, [NESTED, *items])
    for name in NAMES:
        query = f"SELECT {name} FROM {{}} WHERE media_id = '{name}'"
        assert rig.rows(query.format("core.media")) == [(after,)]
        assert rig.rows(query.format("core.media_superseded")) == [(before,)]
    payloads = [f"SELECT gh_payload FROM {rig.kept(table)}" for table in ("core.media", "core.media_superseded")]
    assert len({*rig.rows(" UNION ALL ".join(payloads))}) == 1 + 2 * len(NAMES)
    assert rig.call(values_not_cast) is None


@pytest.mark.parametrize("nested", [{}, {"text": "a"}, ["a"], [[1]]])
def test_a_mapped_text_is_shown_as_it_is_whatever_the_field_has_elsewhere(rig: Rig, nested: object) -> None:
    texts = ["{}", "[photo]", '{"a": 1}']
    for day, captions in enumerate((["x"] * len(texts), texts)):
        items = [{"id": str(number), "caption": caption} for number, caption in enumerate((nested, *captions))]
        rig.scan(POSTS, f"scan {day}", 24 * day, items)
    assert rig.rows("SELECT caption FROM core.media WHERE media_id <> '0' ORDER BY media_id") == [
        (one,) for one in texts
    ]
    assert rig.value("SELECT count(*) FROM core.media_superseded") == len(texts)
    before = rig.everything("schema_name = 'core' AND table_name IN ('media', 'media_superseded')")
    rig.rebuild()
    assert rig.everything("schema_name = 'core' AND table_name IN ('media', 'media_superseded')") == before


# Objects that have the same content, though they differ.
SAME: list[tuple[Item, Item]] = [
    ({"note": {"k": "a", "like_count": 1}}, {"note": {"k": "a", "like_count": 2}}),
    ({"note": {"k": "a", "url": "https://a.example/1"}}, {"note": {"k": "a", "url": "https://a.example/2"}}),
    ({"note": {"k": "a", "seen": 1}}, {"note": {"k": "a", "seen": 2}}),
    ({"likes": {"count": 5}}, {"likes": {"count": 6}}),
    ({"likes": {"count": 5}}, {"likes": {"count": "5"}}),
    ({"likes": {"count": None}}, {"likes": {"count": 5}}),
    ({"counts": {"likes": 5}}, {"counts": {"likes": 6, "comments": 7}}),
    ({"media": {"url": "https://a.example/1"}}, {"media": {"url": "https://a.example/2"}}),
    ({"note": {"of": [{"url": "https://a.example/1"}]}}, {"note": {"of": [{"url": "https://a.example/2"}]}}),
    ({"only": {"of": [{"url": "https://a.example/1"}]}}, {"only": {"of": [{"url": "https://a.example/2"}]}}),
]


def test_an_object_is_compared_by_its_fields_also_beside_texts_like_it(rig: Rig) -> None:
    texts = [{name: text} for before, _ in SAME for name in before for text in ('{"a":1}', "a")]
    rig.rebuild(replace(BUILT_IN, ignore=("/note/seen",)))
    for day in range(2):
        items = [{"id": str(number), **one} for number, one in enumerate([*(pair[day] for pair in SAME), *texts])]
        rig.scan(POSTS, f"scan {day}", 24 * day, items)
    assert rig.rows("FROM core.media_superseded") == []


@pytest.mark.parametrize("name", [NAMES[0], *(pytest.param(name, marks=pytest.mark.long) for name in NAMES[1:])])
def test_texts_like_objects_do_not_depend_on_the_division(opened_rig: Connection, name: str) -> None:
    scan = Scan(POSTS, "scan", at(0))
    texts = ['{"a":1}', '{"a": 1}', "[1]", "{}", '{"a":1}', '{"count":5}']
    values: list[object] = [texts[0], texts[1], {"a": 1, "count": 5}, *texts[2:], {"a": 2}, [1], texts[1], "[2]"]
    landed = [
        scan.page([{"id": number, "like_count": 5, name: value} for number in ("1", str(hour))], at(hour))
        for hour, value in enumerate(values, 2)
    ]
    at_once = rows_after(opened_rig, landed, set())
    assert rows_after(opened_rig, landed, set(range(20))) == at_once
    assert rows_after(opened_rig, landed, {2, 3, 7}) == at_once

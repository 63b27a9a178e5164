import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.warehouse.storage.connection import Connection
from tests.warehouse.rig import POSTS, Item, Rig, Row, Scan, at, emptied, minute

COUNTS = "SELECT metric, value, observed_at FROM core.media_metrics ORDER BY observed_at, metric"


def stored_versions(rig: Rig) -> list[Row]:
    kept = rig.kept("core.media_superseded")
    return rig.rows(f"SELECT media_id, valid_from, valid_to, gh_payload FROM {kept} ORDER BY 1, 2, 3")


def versions(rig: Rig) -> list[tuple[datetime, datetime, Item]]:
    return [(since, until, json.loads(payload)) for _, since, until, payload in stored_versions(rig)]


def test_a_version_is_kept_as_it_was_last_written(rig: Rig) -> None:
    rig.days({"caption": "a", "likes": 1}, {"caption": "a", "likes": 9}, {"caption": "b", "likes": 9})
    assert versions(rig) == [(minute(0), minute(48), {"id": "1", "caption": "a", "likes": 9})]


def test_several_changes_in_one_merge_are_all_kept(rig: Rig) -> None:
    rig.scan(POSTS, "p", 0, [{"id": "1", "caption": "a", "likes": 1}])
    scan = Scan(POSTS, "q", at(24))
    for hour, (caption, likes) in enumerate([("a", 2), ("b", 2), ("b", 3), ("b", 3), ("a", 4)], 24):
        rig.land(scan.page([{"id": "1", "caption": caption, "likes": likes}], at(hour)))
    rig.merge()
    assert [(since, until, item["caption"], item["likes"]) for since, until, item in versions(rig)] == [
        (minute(0), at(25), "a", 2),
        (at(25), at(28), "b", 3),
    ]
    assert [row[1:] for row in rig.rows(COUNTS)] == [(1, minute(0)), (2, at(24)), (3, at(26)), (4, at(28))]
    assert rig.row("SELECT caption, content_changed_at FROM core.media") == ("a", at(28))


def test_a_list_that_moves_to_another_field_is_a_new_version(rig: Rig) -> None:
    rig.days({"a": [7], "b": [1]}, {"a": [7]}, {"b": [7]})
    assert [item for _, _, item in versions(rig)] == [{"id": "1", "a": [7], "b": [1]}, {"id": "1", "a": [7]}]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"likes": 1}, {}),
        ({"likes": 1}, {"likes": None}),
        ({"likes": None}, {"likes": 1}),
        ({"likes": "1"}, {"likes": 2.0}),
        ({"stats": {"saves": 1}}, {"stats": {"saves": 2}}),
        ({"stats": {"saves": 1, "x": 1}}, {"stats": {"x": 1}}),
        ({"stats": {"x": 1, "saves": 1}}, {"stats": {"x": 1}}),
        ({"saves": 1, "reach": 2}, {"saves": 2, "reach": 3}),
        ({"viewCount": -1}, {"viewCount": 12345678901234567}),
        ({"tags": [{"likes": 1, "name": "x"}]}, {"tags": [{"likes": 2, "name": "x"}]}),
    ],
)
def test_fields_that_are_counts_make_no_version(rig: Rig, before: Item, after: Item) -> None:
    rig.days({"caption": "a", **before}, {"caption": "a", **after})
    assert versions(rig) == []
    assert rig.value("SELECT changed_at FROM core.media") == minute(24)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"likes": "many"}, {"likes": "few"}),
        ({"likes": 1.5}, {"likes": 2.5}),
        ({"saves": True}, {"saves": False}),
        ({"account": 1}, {"account": 2}),
        ({"caption": '"likes":1'}, {"caption": '"likes":2'}),
        ({"caption": "a,}"}, {"caption": "a}"}),
        ({"caption": "oe=1"}, {"caption": "oe=2"}),
        ({"tags": [{"name": "x"}]}, {"tags": [{"name": "y"}]}),
    ],
)
def test_fields_that_are_content_make_a_version(rig: Rig, before: Item, after: Item) -> None:
    rig.days({"id": "1", **before}, {"id": "1", **after})
    assert [item for *_, item in versions(rig)] == [{"id": "1", **before}]


def test_a_count_found_later_begins_at_its_first_sighting(rig: Rig) -> None:
    rig.days({"likes": 1}, {"likes": 1, "stats": {"saves": 3}}, {"likes": 1, "stats": {"saves": "4"}})
    assert rig.rows(COUNTS) == [
        ("like_count", 1, minute(0)), ("stats__saves", 3, minute(24)), ("stats__saves", 4, minute(48)),
    ]  # fmt: skip


@pytest.mark.parametrize("written", [[3, 2.5, 3], [2.5, 3, 3.0], [12345678901234567, 1.5, 12345678901234567]])
def test_a_count_among_fractions_is_still_read_whole(rig: Rig, written: list[object]) -> None:
    rig.days(*({"caption": str(day), "saves": value} for day, value in enumerate(written)))
    scan = Scan(POSTS, "again", at(96))
    rig.land(
        *(scan.page([{"id": "2", "caption": str(n), "saves": value}], at(96 + n)) for n, value in enumerate(written))
    )
    rig.merge()
    one, other = (
        rig.rows(f"SELECT value FROM core.media_metrics WHERE media_id = '{number}' ORDER BY observed_at")
        for number in (1, 2)
    )
    assert one == other


def test_an_item_that_returns_unchanged_has_one_history(rig: Rig) -> None:
    rig.scan(POSTS, "p", 0, [{"id": "1", "likes": 1}, {"id": "2"}, {"id": "3"}])
    rig.scan_twice(POSTS, "q", 24, [{"id": "2"}, {"id": "3"}])
    assert rig.value("SELECT removed_at FROM core.media WHERE media_id = '1'") == minute(24)
    rig.scan(POSTS, "r", 48, [{"id": "1", "likes": 1}, {"id": "2"}, {"id": "3"}])
    assert rig.row("SELECT removed_at, changed_at, content_changed_at FROM core.media WHERE media_id = '1'") == (
        None, minute(0), minute(0),
    )  # fmt: skip
    assert (versions(rig), rig.rows(COUNTS)) == ([], [("like_count", 1, minute(0))])


def test_both_occurrences_of_an_item_on_one_page_are_kept(rig: Rig) -> None:
    rig.scan(POSTS, "p", 0, [{"id": "1", "caption": "a", "likes": 1}, {"id": "1", "caption": "b", "likes": 2}])
    assert versions(rig) == [(minute(0), minute(0), {"id": "1", "caption": "a", "likes": 1})]
    assert sorted(rig.rows(COUNTS), key=repr) == [("like_count", 1, minute(0)), ("like_count", 2, minute(0))]


# The expected result, in plain Python.


@dataclass
class Known:
    item: Item
    since: datetime
    counts: dict[str, int | None] = field(default_factory=dict)


COUNT_KEYS = ("likes", "saves")


def stable(item: Item) -> Item:
    """An item's content: without null values and its image URL, and with counts as numbers."""
    text = {key: value for key, value in item.items() if value is not None and key != "url"}
    return {key: int(value) if key in COUNT_KEYS else value for key, value in text.items()}


def content(item: Item) -> Item:
    return stable({key: value for key, value in item.items() if key not in COUNT_KEYS})


def count(item: Item, key: str) -> int | None:
    value = item.get(key)
    return None if value is None else int(value)


@dataclass
class Chronicle:
    known: dict[str, Known] = field(default_factory=dict)
    versions: list[tuple[str, datetime, datetime, Item]] = field(default_factory=list)
    counts: list[Row] = field(default_factory=list)

    def apply(self, item: Item, when: datetime) -> None:
        before = self.known.get(item["id"])
        if before is not None and stable(before.item) == stable(item):
            return
        since, counts = when, dict.fromkeys(("like_count", "saves"))
        if before is not None:
            counts = before.counts
            if content(before.item) == content(item):
                since = before.since
            else:
                self.versions.append((item["id"], before.since, when, before.item))
        now = {"like_count": count(item, "likes"), "saves": count(item, "saves")}
        self.counts += [(item["id"], name, now[name], when) for name in now if now[name] != counts[name]]
        self.known[item["id"]] = Known(item, since, now)


items = st.builds(
    lambda number, fields: {"id": str(number), **fields},
    st.integers(0, 1),
    st.fixed_dictionaries(
        {},
        optional={
            "caption": st.sampled_from(["a", "b"]),
            "likes": st.sampled_from([1, 2, "2", None]),
            "saves": st.sampled_from([1, 2]),
            "url": st.sampled_from(["https://x/1?oe=A", "https://x/1?oe=B", "https://x/2?oe=A"]),
        },
    ),
)


def history(rig: Rig) -> dict[str, Any]:
    return {
        "versions": sorted(
            ((*row[:3], json.loads(row[3])) for row in stored_versions(rig)),
            key=repr,
        ),
        "counts": sorted(
            rig.rows("SELECT media_id, metric, value, observed_at FROM core.media_metrics"),
            key=repr,
        ),
        "present": {
            media_id: (json.loads(payload), since)
            for media_id, payload, since in rig.rows(
                f"SELECT media_id, gh_payload, content_changed_at FROM {rig.kept()}"
            )
        },
    }


@given(pages=st.lists(st.lists(items, max_size=3), min_size=1, max_size=8), merges=st.lists(st.booleans(), min_size=8))
# Each example takes seconds, and few examples find little: the cases above run every time.
@pytest.mark.long
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_history_follows_from_the_sightings_in_any_batches(
    opened_rig: Connection, pages: list[list[Item]], merges: Sequence[bool]
) -> None:
    chronicle = Chronicle()
    for number, page in enumerate(pages):
        for item in page:
            chronicle.apply(item, at(number))
    message = {
        "versions": sorted(chronicle.versions, key=repr),
        "counts": sorted(chronicle.counts, key=repr),
        "present": {media_id: (known.item, known.since) for media_id, known in chronicle.known.items()},
    }
    for cuts in ([False] * 8, [True] * 8, merges):
        rig = emptied(opened_rig)
        scan = Scan(POSTS, "p", at(0))
        for number, page in enumerate(pages):
            rig.land(scan.page(page, at(number)))
            if cuts[number]:
                rig.merge()
        rig.merge()
        assert history(rig) == message

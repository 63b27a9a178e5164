"""Values that a mapped column cannot hold are counted by column name."""

from dataclasses import replace

import pytest

from connectors.warehouse.schema.not_cast import values_not_cast
from models.mapping import BUILT_IN
from tests.warehouse.rig import POSTS, Item, Rig


def post(number: int, **more: object) -> Item:
    return {"id": str(number), "timestamp": "2026-03-01T02:00:00Z", "like_count": 5, **more}


def test_a_warehouse_whose_values_were_all_read_has_no_warning(rig: Rig) -> None:
    assert rig.call(values_not_cast) is None
    rig.scan(POSTS, "w", 0, [post(1), post(2, timestamp=None), post(3, timestamp=""), {"id": "4"}])
    assert rig.call(values_not_cast) is None


@pytest.mark.parametrize("lost", ["soon", {"at": "2026-03-01"}])
def test_values_that_were_lost_are_counted_by_column(rig: Rig, lost: object) -> None:
    rig.scan(POSTS, "w", 0, [post(1), post(2, timestamp=lost), post(3, timestamp=lost, like_count="many")])
    warning = rig.call(values_not_cast)
    assert warning is not None
    assert (warning.code, warning.count, warning.makes_partial) == ("values_not_cast", 3, False)
    assert warning.detail.endswith("are NULL: published_at (2), like_count (1).")
    assert "gramhouse rebuild" in (warning.hint or "")


def test_removed_and_corrected_items_are_not_counted(rig: Rig) -> None:
    rig.scan(POSTS, "w", 0, [post(1, timestamp="soon"), post(2, timestamp="soon"), post(3), post(4)])
    rig.scan_twice(POSTS, "x", 24, [post(2), post(3), post(4)])
    assert rig.value("SELECT count(*) FROM core.media WHERE removed_at IS NOT NULL") == 1
    assert rig.call(values_not_cast) is None


def test_a_mapping_that_finds_the_value_elsewhere_ends_the_warning(rig: Rig) -> None:
    rig.scan(POSTS, "w", 0, [post(1, timestamp="soon", shown_on="2026-03-01T02:00:00Z")])
    assert rig.call(values_not_cast) is not None
    more = tuple(
        replace(column, paths=(*column.paths, "/shown_on")) if column.column == "published_at" else column
        for column in BUILT_IN.columns
    )
    rig.rebuild(replace(BUILT_IN, columns=more))
    assert rig.call(values_not_cast) is None

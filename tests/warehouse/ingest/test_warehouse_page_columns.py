"""Columns from pages are aligned with the items, in whatever order these were decoded."""

import pyarrow as pa

from connectors.warehouse.ingest.page_columns import by_order_key, of_pages
from models.page_commit import POSITION_BITS

PAGES = pa.table({"seq": pa.array([3, 5], pa.int64()), "account_id": ["a", "b"], "correlation_id": ["x", None]})


def keys(*pairs: tuple[int, int]) -> pa.Array:
    return pa.array([(seq << POSITION_BITS) + position for seq, position in pairs], pa.int64())


def test_items_get_the_columns_of_their_page() -> None:
    order_keys = keys((5, 0), (3, 1), (5, 7))
    found = of_pages(order_keys, PAGES)
    assert found["order_key"].to_pylist() == order_keys.to_pylist()
    assert found["seq"].to_pylist() == [5, 3, 5]
    assert found["account_id"].to_pylist() == ["b", "a", "b"]
    assert found["correlation_id"].to_pylist() == [None, "x", None]


def test_a_column_follows_the_items_order() -> None:
    table = pa.table({"order_key": keys((3, 0), (3, 1), (5, 0)), "payload": ["one", "two", "three"]})
    for order in ([0, 1, 2], [2, 0, 1], [1]):
        wanted = table["order_key"].take(pa.array(order)).combine_chunks()
        expected = [("one", "two", "three")[index] for index in order]
        assert by_order_key(table, "payload", wanted).to_pylist() == expected

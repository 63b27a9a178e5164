"""Pages as an Arrow table, and columns of items that come from their pages: this avoids a join in DuckDB.

DuckDB estimates every registered Arrow table at a single row. In a join it therefore copies the items, with all their
columns, into a hash table, which takes longer than writing them.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connectors.warehouse.ingest.arrays import array_of, array_of_instants
from models.page_commit import POSITION_BITS, ReceivedPage


def table_of_pages(pages: Sequence[tuple[int, ReceivedPage]]) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return a table of pages, without their bodies: `seq`, the landing number, and the data of their requests."""
    of = [page for _, page in pages]
    texts: dict[str, Sequence[str | None]] = {
        "resource": [page.partition.resource for page in of],
        "account_id": [page.partition.account_id for page in of],
        "surface": [page.partition.surface for page in of],
        "run_id": [page.run_id for page in of],
        "scan_id": [page.scan_id for page in of],
        "correlation_id": [page.correlation_id for page in of],
    }
    return pa.table(
        {
            "seq": array_of([seq for seq, _ in pages], pa.int64()),
            **{name: array_of(values, pa.string()) for name, values in texts.items()},
            "page": array_of([page.page for page in of], pa.int32()),
            "received_at": array_of_instants(page.received_at for page in of),
            "token_expired": array_of([page.token_expired for page in of], pa.bool_()),
        }
    )


def of_pages(order_keys: Any, pages: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return a table of items: `order_key`, and the columns of their pages; `pages` has one row for each `seq`.

    Every column except `order_key` and `seq` is dictionary-encoded.
    """
    seqs = pc.shift_right(order_keys, POSITION_BITS)
    index = pc.index_in(seqs, pages["seq"].combine_chunks())
    columns = {
        name: pa.DictionaryArray.from_arrays(index, pages[name].combine_chunks())
        for name in pages.column_names
        if name != "seq"
    }
    return pa.table({"order_key": order_keys, "seq": seqs, **columns})


def by_account(cells: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return the cells without `payload`, sorted by account and surface, otherwise in the same order.

    DuckDB takes eight times as long, because it sorts whole rows.
    """
    sorted_columns = cells.drop_columns(["payload"]).combine_chunks()
    accounts, surfaces = (sorted_columns[name].cast(pa.string()) for name in ("account_id", "surface"))
    keys = pa.table({"account_id": accounts, "surface": surfaces})
    index = pc.sort_indices(keys, sort_keys=[("account_id", "ascending"), ("surface", "ascending")])
    return sorted_columns.take(index)


def by_order_key(table: Any, name: str, order_keys: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return a column of a table in the order of these keys; each key occurs once in the table's `order_key`."""
    found = table["order_key"].combine_chunks()
    if found.equals(order_keys):
        return table[name]
    return table[name].take(pc.index_in(order_keys, found))

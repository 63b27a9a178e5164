"""The stored bytes of items and of their versions, and of the quarantine, as the merge reads records."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.reading import Records, read_batch_items
from connectors.warehouse.raw.reading import read_parts
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.identity import read_warehouse
from connectors.warehouse.storage.statements import statements
from models.item import Items
from models.landing import Landing
from models.mapping import Mapping
from models.partition import media

_SQL = statements(__name__)

# The records that are read at once: about 20 MB of them.
_AT_ONCE = 20_000


def find_places(db: DuckDBPyConnection) -> int:
    """Write the places of items and versions in the raw store to temp.places; return how many. Raises duckdb.Error."""
    [(places,)] = db.execute(_SQL["places"]).fetchall()
    return int(places)


def read_stored(db: DuckDBPyConnection, raw: Path, mapping: Mapping) -> Iterator[tuple[pa.Table, Records, Items]]:
    """Yield the items and versions, as they are with this mapping, some at a time in the order of their landings.

    The table has rows of the raw store, with `is_item` and `is_version`. Raises WarehouseUnusable if a part of the raw
    store is damaged or lacks one, or if one cannot be read.
    """
    missing = find_places(db)
    for part in read_parts(raw, merged_seq=read_warehouse(db).merged_seq):
        numbers = pa.array(range(part.num_rows), pa.int64())
        db.register("part", part.select(["landed", "position"]).append_column("n", numbers))
        found = db.execute(_SQL["found"]).to_arrow_table()
        missing -= found.num_rows
        for begin in range(0, found.num_rows, _AT_ONCE):
            some = found.slice(begin, _AT_ONCE)
            rows = part.take(some["n"])
            for name in ("is_item", "is_version"):
                rows = rows.append_column(name, some[name])
            records = records_of(rows)
            items, rejected = read_batch_items(records, range(rows.num_rows), mapping)
            if rejected:
                raise WarehouseUnusable(
                    f"With this mapping {len(rejected):,} of {rows.num_rows:,} stored items cannot be read, such as"
                    f" {rejected[0].payload[:80]}: {rejected[0].reason} Nothing was changed."
                    " Fix: correct [mapping] in gramhouse.toml."
                )
            yield rows, records, items
    if missing:
        raise WarehouseUnusable(
            f"The raw store {raw} lacks {missing:,} payloads that the warehouse refers to. Fix: restore it from the"
            " same backup as the warehouse. Nothing was changed."
        )


def records_of(rows: pa.Table) -> Records:
    """Return rows of the raw store, or of the quarantine with the same columns, as the merge reads them."""
    firsts = rows.group_by("landed", use_threads=False).aggregate(
        [("account_id", "first"), ("surface", "first"), ("seen_at", "first")]
    )
    pages = [
        Landing(landed, 0, "", media(account_id, surface), "", landed, 0, seen_at, None, b"")
        for landed, account_id, surface, seen_at in zip(*map(pa.ChunkedArray.to_pylist, firsts.columns), strict=True)
    ]
    return Records(
        pages,
        raws=rows["payload"].to_pylist(),
        page_of=pc.index_in(rows["landed"], firsts["landed"].combine_chunks()).to_pylist(),
        position=rows["position"].to_pylist(),
    )

"""The stored bytes of items and of their versions, and of the quarantine, as the merge reads records."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.reading import Records, read_batch_items
from connectors.warehouse.raw.reading import read_parts
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.identity import read_merged
from connectors.warehouse.storage.statements import statements
from models.item import Items
from models.landing import Landing
from models.mapping import Mapping as MediaMapping
from models.partition import media

_SQL = statements(__name__)

# The records that are read at once: about 20 MB of them.
_AT_ONCE = 20_000


class Stored(NamedTuple):
    """Rows of the raw store, with `is_item` and `is_version`; their records, and the items."""

    rows: pa.Table
    records: Records
    items: Items


def find_places(db: DuckDBPyConnection) -> int:
    """Write the places of items and versions in the raw store to temp.places; return how many. Raises duckdb.Error."""
    db.execute(_SQL["places"])
    [(places,)] = db.execute("SELECT count(*) FROM places").fetchall()
    return int(places)


def read_stored(db: DuckDBPyConnection, raw: Path, mapping: MediaMapping) -> Iterator[Stored]:
    """Yield the items and versions, as they are with this mapping, some at a time in the order of their landings.

    Raises WarehouseUnusable if a part of the raw store is damaged or lacks one, or if one cannot be read.
    """
    missing = find_places(db)
    for part in read_parts(raw, merged_seq=read_merged(db)):
        for begin in range(0, part.num_rows, _AT_ONCE):
            db.register("part", part.slice(begin, _AT_ONCE))
            rows = db.execute(_SQL["referred"]).to_arrow_table()
            missing -= rows.num_rows
            records = records_of(rows)
            items, rejected = read_batch_items(records, range(rows.num_rows), mapping)
            if rejected:
                raise WarehouseUnusable(
                    f"With this mapping {len(rejected):,} of {rows.num_rows:,} stored items cannot be read, such as"
                    f" {rejected[0].payload[:80]}: {rejected[0].reason} Nothing was changed."
                    " Fix: correct [mapping] in gramhouse.toml."
                )
            yield Stored(rows, records, items)
    if missing:
        raise WarehouseUnusable(
            f"The raw store {raw} lacks {missing:,} payloads that the warehouse refers to. Fix: restore it from the"
            " same backup as the warehouse. Nothing was changed."
        )


def records_of(rows: pa.Table) -> Records:
    """Return rows of the raw store, or of the quarantine with the same columns, as the merge reads them."""
    columns = rows.select(["landed", "account_id", "surface", "seen_at", "payload", "position"]).to_pydict()
    raws, positions = columns.pop("payload"), columns.pop("position")
    pages = [
        Landing(landed, 0, "", media(account_id, surface), "", landed, 0, seen_at, None, b"")
        for landed, account_id, surface, seen_at in zip(*columns.values(), strict=True)
    ]
    return Records(pages, raws=raws, page_of=list(range(len(pages))), position=positions)

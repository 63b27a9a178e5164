"""What a rebuild reads: the stored bytes of items and of their versions, and the items in quarantine.

Rejected accounts are not read again, because every sync lists all accounts.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.merge import merge_batch
from connectors.warehouse.raw.parts import read_parts
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.identity import read_warehouse
from connectors.warehouse.storage.statements import statements
from models.checkpoint import Landing, cut_batch
from models.feeds import media
from models.item import Items, read_items
from models.mapping import Mapping

_SQL = statements(__name__)

# The records that are read at once: about 20 MB of them.
_AT_ONCE = 20_000


def find_places(db: DuckDBPyConnection) -> int:
    """Write the places of items and versions in the raw store to temp.places; return how many. Raises duckdb.Error."""
    [(places,)] = db.execute(_SQL["places"]).fetchall()
    return int(places)


def read_stored(db: DuckDBPyConnection, raw: Path, mapping: Mapping) -> Iterator[tuple[pa.Table, Items]]:
    """Yield rows of the raw store with `is_item` and `is_version`, some at a time in order, and the items they are now.

    Raises WarehouseUnusable if a part of the raw store is damaged or lacks one, or if one cannot be read.
    """
    missing = find_places(db)
    for part in read_parts(raw, merged_seq=read_warehouse(db).merged_seq):
        db.register("part", part)
        found = db.execute(_SQL["found"]).to_arrow_table()
        missing -= found.num_rows
        for begin in range(0, found.num_rows, _AT_ONCE):
            rows = found.slice(begin, _AT_ONCE)
            payloads = rows["payload"].to_pylist()
            items = read_items(enumerate(payloads), mapping)
            if items.rejected:
                first, reason = min(items.rejected.items())
                raise WarehouseUnusable(
                    f"With this mapping {len(items.rejected):,} of {rows.num_rows:,} stored items cannot be read, such"
                    f" as {payloads[first][:80].decode(errors='replace')}: {reason} Nothing was changed."
                    " Fix: correct [mapping] in gramhouse.toml."
                )
            yield rows, items
    if missing:
        raise WarehouseUnusable(
            f"The raw store {raw} lacks {missing:,} payloads that the warehouse refers to. Fix: restore it from the"
            " same backup as the warehouse. Nothing was changed."
        )


Quarantine = tuple[Sequence[dict[str, Any]], Items]
"""The items in quarantine, in the order in which they were received: rows, and what can be read now, by number."""


def read_quarantine(db: DuckDBPyConnection, mapping: Mapping) -> Quarantine:
    """Return the items in quarantine. Raises duckdb.Error."""
    rows = db.execute(_SQL["quarantined"]).to_arrow_table().to_pylist()
    return rows, read_items(((n, row["payload"]) for n, row in enumerate(rows)), mapping)


def import_quarantine(
    db: DuckDBPyConnection, raw: Path, mapping: Mapping, quarantine: Quarantine, take: Callable[[int], int]
) -> tuple[int, int]:
    """Merge the records of the quarantine that can be read now; return how many, and how many were outdated.

    They are merged as if they had been received now, in their order; an item whose record was received again later was
    last seen then.
    """
    rows, items = quarantine
    if not items.read:
        return 0, 0
    readable = [{"row": rows[n]["row"], "media_id": item.media_id} for n, item in items.read.items()]
    db.register("readable", pa.Table.from_pylist(readable))
    outdated = {row for (row,) in db.execute(_SQL["outdated"]).fetchall()}
    db.execute(_SQL["released"])
    imported = [n for n in items.read if rows[n]["row"] not in outdated]
    listings = sorted((at, n) for n in imported for at in {rows[n]["seen_at"], rows[n]["last_seen_at"]})
    inbox = []
    for seq, (at, n) in enumerate(listings, take(len(listings)) + 1):
        # A page with only this record, which no scan asked for.
        row, body = rows[n], b'{"items":[' + rows[n]["payload"] + b'],"next_cursor":null}'
        run, of = (row["run_seq"], row["run_id"]), media(row["account_id"], row["surface"])
        inbox.append(Landing(seq, *run, of, "", seq, row["page"], at, row["correlation_id"], body))
    while batch := cut_batch(inbox):
        merge_batch(db, batch, mapping, raw)
        del inbox[: len(batch)]
    return len(imported), len(outdated)

"""The items in quarantine: which can be read with a mapping, and how these become rows.

Rejected accounts are not read again, because every sync lists all accounts.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.maintenance.stored import records_of
from connectors.warehouse.merge.merge import merge_pages
from connectors.warehouse.merge.reading import Records, Rejected, read_batch_items
from connectors.warehouse.storage.statements import statements
from models.api import DEFAULT_PATHS
from models.item import Items
from models.landing import Landing, cut_batch
from models.mapping import Mapping as MediaMapping
from models.partition import media

_SQL = statements(__name__)


class Quarantine(NamedTuple):
    """The items in quarantine, in the order in which they were received: rows, records, and what can be read now."""

    rows: Sequence[dict[str, Any]]
    records: Records
    items: Items
    rejected: Sequence[Rejected]


def read_quarantine(db: DuckDBPyConnection, mapping: MediaMapping) -> Quarantine:
    """Return the items in quarantine. Raises duckdb.Error."""
    table = db.execute(_SQL["quarantined"]).to_arrow_table()
    records = records_of(table)
    return Quarantine(table.to_pylist(), records, *read_batch_items(records, range(table.num_rows), mapping))


def import_quarantine(
    db: DuckDBPyConnection, raw: Path, mapping: MediaMapping, quarantine: Quarantine, take: Callable[[int], int]
) -> tuple[int, int]:
    """Merge the records of the quarantine that can be read now; return how many, and how many were outdated.

    They are merged as if they had been received now, in their order; an item whose record was received again later was
    last seen then.
    """
    rows, media_ids = quarantine.rows, quarantine.items.media_ids
    if quarantine.rejected:
        # The number of a record is that of its landing.
        unreadable = [
            {"row": rows[one.page.seq]["row"], "digest": one.digest, "reason": one.reason}
            for one in quarantine.rejected
        ]
        db.register("unreadable", pa.Table.from_pylist(unreadable, _UNREADABLE))
        db.execute(_SQL["digests"])
    if not media_ids:
        return 0, 0
    readable = [{"row": rows[n]["row"], "media_id": media_id} for n, media_id in media_ids.items()]
    db.register("readable", pa.Table.from_pylist(readable))
    outdated = {row for (row,) in db.execute(_SQL["outdated"]).fetchall()}
    db.execute(_SQL["released"])
    imported = [n for n in media_ids if rows[n]["row"] not in outdated]
    listings = sorted((at, n) for n in imported for at in {rows[n]["seen_at"], rows[n]["last_seen_at"]})
    inbox = [_landing(seq, at, rows[n]) for seq, (at, n) in enumerate(listings, take(len(listings)) + 1)]
    while batch := cut_batch(inbox):
        merge_pages(db, batch, mapping, raw, DEFAULT_PATHS)
        del inbox[: len(batch)]
    return len(imported), len(outdated)


_UNREADABLE = pa.schema([("row", pa.int64()), ("digest", pa.uint64()), ("reason", pa.string())])


def _landing(seq: int, at: datetime, row: Mapping[str, Any]) -> Landing:
    """Return a page with only this record, which no scan asked for."""
    return Landing(
        seq, row["run_seq"], row["run_id"], media(row["account_id"], row["surface"]), "", seq, row["page"], at,
        row["correlation_id"], b'{"items":[' + row["payload"] + b'],"next_cursor":null}',
    )  # fmt: skip

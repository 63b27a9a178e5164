"""Merges a batch of landed pages into the warehouse, in one transaction, top to bottom.

A statement costs a millisecond, so those without work are left out. What a kill leaves: before the commit, the
warehouse as it was, and perhaps a part of the raw store above `merged_seq`, which the next opening deletes; after it,
the batch in the inbox, which the next opening deletes up to `merged_seq`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
from duckdb import DuckDBPyConnection
from msgspec import to_builtins

from connectors.warehouse.merge.items import merge_items
from connectors.warehouse.merge.reading import Counted, read_records
from connectors.warehouse.storage.sql import statements
from models.checkpoint import Checkpoint, Landing
from models.feeds import CATALOGUE, LIFETIMES
from models.item import CONTENT_RULE
from models.mapping import MediaMapping

_SQL = statements(__name__)

Row = dict[str, object]

_to_row = partial(to_builtins, builtin_types=[datetime, bytes])

_LISTED_ACCOUNTS = pa.schema(
    {
        "seq": pa.int64(),
        "account_id": pa.string(),
        "said": pa.struct(dict.fromkeys(("listed_as", "ig_username", "public_id", "status"), pa.string())),
    }
)


def merge_batch(db: DuckDBPyConnection, batch: Sequence[Landing], mapping: MediaMapping, raw: Path) -> None:
    """Merge a batch that `cut_batch` returned, in the open transaction.

    `raw` is the folder of the raw store. The resulting rows do not depend on how landings are divided into batches.
    Raises duckdb.Error and OSError.
    """
    run_seqs = {page.run_id: page.run_seq for page in batch}
    records = read_records(batch)
    db.register("pages", records.table_of_pages())
    raw_seq, counted = merge_items(db, records, mapping, raw), records.counted
    for rows in _list_in_turn(records.accounts):
        db.register("listed_accounts", pa.Table.from_pylist(rows, _LISTED_ACCOUNTS))
        for name in ("account_listings", "accounts", "periods", "listed_twice"):
            db.execute(_SQL[name])
    rejected = {row["seq"] for row in records.rejected}
    # Pages that no scan asked for have one record each, which was in quarantine.
    read = [page for page in records.pages if page.scan_id == "" and page.seq not in rejected]
    if released := [{"body": page.body, **_to_row(page.partition)} for page in read]:
        db.register("released", pa.Table.from_pylist(released))
        db.execute(_SQL["released"])
    if records.rejected:
        db.register("rejected", pa.Table.from_pylist(records.rejected))
        written = db.execute(_SQL["quarantine"]).fetchall()
        counted.update((run_seqs[run_id], "quarantined") for action, run_id in written if action == "INSERT")
        db.execute(_SQL["rejected"])
    outcomes = [{"seq": page.seq, "run_seq": page.run_seq, **_to_row(one)} for page in batch for one in page.outcomes]
    if outcomes:
        db.register("outcomes", pa.Table.from_pylist(outcomes))
        db.execute(_SQL["outcomes"])
    if ends := {page.seq: page.end for page in batch if page.end is not None}:
        counted.update(_close_scans(db, ends))
    db.execute(_SQL["merged"], [batch[-1].seq, raw_seq, mapping.to_json(), CONTENT_RULE])
    add_counts(db, counted, {run_seq: run_id for run_id, run_seq in run_seqs.items()})


def _list_in_turn(accounts: Sequence[Row]) -> Iterable[list[Row]]:
    """Return the first listings of accounts, then the second ones, and so on: each is compared with the one before."""
    turns, listed = defaultdict[int, list[Row]](list), Counter[object]()
    for row in accounts:
        turns[listed[row["account_id"]]].append(row)
        listed[row["account_id"]] += 1
    return turns.values()


def _close_scans(db: DuckDBPyConnection, ends: Mapping[int, Checkpoint]) -> Counted:
    """Mark what these scans missed, which ended with these landings, and remember them; return what to count."""
    lifetimes = {name: int(lifetime.total_seconds()) for name, lifetime in LIFETIMES.items()}
    rows = [{**_to_row(end), "seq": seq, "lifetime": lifetimes.get(end.partition.surface)} for seq, end in ends.items()]
    db.register("ends", pa.Table.from_pylist(rows))
    db.execute(_SQL["closing"])
    db.execute(_SQL["missed"])
    counted = Counted({(run, name): number for run, name, number in db.execute(_SQL["missed_counts"]).fetchall()})
    if counted:
        db.execute(_SQL["missed_items"])
        counted.update(db.execute(_SQL["expired"]).fetchall())
    if any(end.partition == CATALOGUE for end in ends.values()):
        db.execute(_SQL["missed_accounts"])
    db.execute(_SQL["closed_scans"])
    db.execute(_SQL["old_findings"])
    return counted


def add_counts(db: DuckDBPyConnection, counted: Counted, run_ids: Mapping[int, str]) -> None:
    """Add numbers to core.run_counts, in the open transaction. `run_ids` are by number.

    The sums over all of its rows include everything ever merged, regardless of kills, resumed runs and retention: that
    of `added` is the number of rows of media. An event is counted once, however the pages were divided into merges.
    """
    rows = [
        {"run_seq": run_seq, "run_id": run_ids[run_seq], "name": name, "number": number}
        for (run_seq, name), number in counted.items()
        if number
    ]
    if rows:
        db.execute(_SQL["counted"], [rows])

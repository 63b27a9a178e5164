"""Merges a batch of landed pages into the warehouse, in one transaction, top to bottom.

A statement costs a millisecond, so those without work are left out. What a kill leaves: before the commit, the
warehouse as it was, and perhaps a part of the raw store above `merged_seq`, which the next opening deletes; after it,
the batch in the inbox, which the next opening deletes up to `merged_seq`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from zlib import crc32

import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.items import merge_items
from connectors.warehouse.merge.reading import read_records
from connectors.warehouse.merge.removals import ACCOUNTS_CONFIRM_AFTER_HOURS, CONFIRM_AFTER_HOURS
from connectors.warehouse.merge.run_counts import Counted, add_counts
from connectors.warehouse.storage.sql import statements
from models.checkpoint import PROOFS, PROOFS_AGAIN, Checkpoint, Landing, ScanState
from models.feeds import CATALOGUE, LIFETIMES
from models.item import CONTENT_RULE
from models.mapping import Mapping as MediaMapping

_SQL = statements(__name__)

Row = dict[str, object]

_LISTED_ACCOUNTS = pa.schema(
    {
        "seq": pa.int64(),
        "account_id": pa.string(),
        "said": pa.struct(dict.fromkeys(("listed_as", "ig_username", "public_id", "status"), pa.string())),
    }
)

# Hours, and numbers of full scans.
_FIGURES = {
    "confirm_after": CONFIRM_AFTER_HOURS,
    "confirm_accounts_after": ACCOUNTS_CONFIRM_AFTER_HOURS,
    "proofs": PROOFS,
    "proofs_again": PROOFS_AGAIN,
}


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
    if records.rejected:
        db.register("rejected", pa.Table.from_pylist(records.rejected))
        written = db.execute(_SQL["quarantine"]).fetchall()
        counted.update((run_seqs[run_id], "quarantined") for action, run_id in written if action == "INSERT")
        db.execute(_SQL["rejected"])
    outcomes = [
        {"seq": page.seq, "run_seq": page.run_seq, **asdict(one), "kind": str(one.kind)}
        for page in batch
        for one in page.outcomes
    ]
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
    db.register("ends", pa.Table.from_pylist([_end(seq, end) for seq, end in ends.items()]))
    db.execute(_SQL["closing"].format(**_FIGURES))
    db.execute(_SQL["missed"].format(**_FIGURES))
    counted = Counted(db.execute(_SQL["missed_counts"]).fetchall())
    if counted:
        db.execute(_SQL["missed_items"])
        counted.update(db.execute(_SQL["expired"]).fetchall())
    if any(end.partition == CATALOGUE for end in ends.values()):
        db.execute(_SQL["missed_accounts"].format(**_FIGURES))
    db.execute(_SQL["closed_scans"].format(**_FIGURES))
    db.execute(_SQL["old_findings"])
    return counted


def _end(seq: int, end: Checkpoint) -> Row:
    account_id, lifetime = end.partition.account_id, LIFETIMES.get(end.partition.surface)
    names = ("started_at", "read_to", "order_broken_by", "had_expired_token", "pages", "items")
    return {
        "seq": seq,
        **{name: getattr(end, name) for name in names},
        "is_recent": end.state is ScanState.RECENT,
        "full_share": _share_of(account_id) if end.full_share is None else end.full_share,
        "lifetime": lifetime and int(lifetime.total_seconds()),
    }


def _share_of(account_id: str) -> float:
    """Return the part of the refresh interval after which an account's first full scan is due again, in (0, 1].

    It differs so that the full scans of all accounts are spread.
    """
    return (crc32(account_id.encode()) + 1) / 2**32

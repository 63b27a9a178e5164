"""Merges a batch of landed pages into the warehouse, in one transaction, top to bottom.

A statement costs a millisecond, so those without work are left out. What a kill leaves: before the commit, the
warehouse as it was, and perhaps a part of the raw store above `merged_seq`, which the next opening deletes; after it,
the batch in the inbox, which the next opening deletes up to `merged_seq`.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from zlib import crc32

import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.items import merge_items
from connectors.warehouse.merge.reading import Records, pick, read_records
from connectors.warehouse.merge.removals import ACCOUNTS_CONFIRM_AFTER_HOURS, CONFIRM_AFTER_HOURS
from connectors.warehouse.merge.run_counts import Counted, add_counts
from connectors.warehouse.storage.statements import statements
from models.checkpoint import PROOFS, PROOFS_AGAIN, Checkpoint, Landing, ScanState
from models.feeds import CATALOGUE, LIFETIMES
from models.item import CONTENT_RULE
from models.mapping import Mapping as MediaMapping

_SQL = statements(__name__)

Row = dict[str, object]

_LISTED_ACCOUNTS = pa.schema(
    {
        **dict.fromkeys(("seq", "began_seq", "run_seq"), pa.int64()),
        **dict.fromkeys(("scan_id", "account_id"), pa.string()),
        "received_at": pa.timestamp("us", tz="UTC"),
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
    records = read_records(batch)
    raw_seq, counted = merge_items(db, records, mapping, raw), records.counted
    for rows in _list_in_turn(records.accounts):
        db.register("listed_accounts", pa.Table.from_pylist(rows, _LISTED_ACCOUNTS))
        for name in ("account_listings", "accounts", "periods", "listed_twice"):
            db.execute(_SQL[name])
    if records.rejected:
        counted.update(_write_quarantine(db, records))
    if records.findings:
        db.register("findings", pa.Table.from_pylist([_finding(*one) for one in records.findings]))
        db.execute(_SQL["findings"])
    if any(page.outcomes for page in batch):
        _write_outcomes(db, batch)
    if any(page.end for page in batch):
        counted.update(_close_scans(db, batch))
    db.execute(_SQL["merged"], [batch[-1].seq, raw_seq, mapping.to_json(), CONTENT_RULE])
    add_counts(db, counted, {page.run_seq: page.run_id for page in batch})


def _list_in_turn(accounts: Sequence[Row]) -> Sequence[list[Row]]:
    """Return the first listings of accounts, then the second ones, and so on: each is compared with the one before."""
    turns, counted = list[list[Row]](), Counter[object]()
    for row in accounts:
        if (turn := counted[row["account_id"]]) == len(turns):
            turns.append([])
        turns[turn].append(row)
        counted[row["account_id"]] += 1
    return turns


def _finding(page: Landing, finding: str, record_id: str | None) -> Row:
    partition = asdict(page.partition)
    return {**partition, "scan_id": page.scan_id, "finding": finding, "record_id": record_id, "seq": page.seq}


def _write_quarantine(db: DuckDBPyConnection, records: Records) -> Counted:
    db.register("quarantined", pa.Table.from_pylist(records.rejected))
    run_seqs = {page.run_id: page.run_seq for page in records.pages}
    written = db.execute(_SQL["quarantine"]).fetchall()
    return Counter((run_seqs[run_id], "quarantined") for action, run_id in written if action == "INSERT")


def _write_outcomes(db: DuckDBPyConnection, batch: Sequence[Landing]) -> None:
    last = {(one.run_id, one.partition): (page.run_seq, one) for page in batch for one in page.outcomes}
    rows = []
    for run_seq, outcome in last.values():
        row = asdict(outcome)
        rows.append({"run_seq": run_seq, **row.pop("partition"), "outcome": str(row.pop("kind")), **row})
    db.register("outcomes", pa.Table.from_pylist(rows))
    db.execute(_SQL["outcomes"])


def _close_scans(db: DuckDBPyConnection, batch: Sequence[Landing]) -> Counted:
    """Mark what the closed scans of the batch missed, and remember these scans; return what to count, by run."""
    ends = [_end(page, page.end) for page in batch if page.end is not None]
    db.register("ends", pa.Table.from_pylist(ends))
    db.execute(_SQL["closing"].format(**_FIGURES))
    db.execute(_SQL["missed"].format(**_FIGURES))
    counted = Counted()
    for run_seq, missed, expired in db.execute(_SQL["missed_counts"]).fetchall():
        counted.update({(run_seq, "missed"): missed, (run_seq, "expired"): expired})
    steps = {
        "missed_items": bool(counted),
        "expired": any(number for (_, name), number in counted.items() if name == "expired"),
        "missed_accounts": any(end["resource"] == CATALOGUE.resource for end in ends),
        "closed_scans": True,
        "old_findings": True,
    }
    for name in [name for name, is_needed in steps.items() if is_needed]:
        db.execute(_SQL[name].format(**_FIGURES))
    return counted


def _end(page: Landing, end: Checkpoint) -> Row:
    account_id, lifetime = page.partition.account_id, LIFETIMES.get(page.partition.surface)
    return {
        **asdict(page.partition),
        **pick(page, ("scan_id", "seq", "run_seq", "began_seq")),
        **pick(end, ("started_at", "read_to", "order_broken_by", "had_expired_token", "pages", "items")),
        "closed_at": page.received_at,
        "is_recent": end.state is ScanState.RECENT,
        "full_share": _share_of(account_id) if end.full_share is None else end.full_share,
        "lifetime": lifetime and int(lifetime.total_seconds()),
    }


def _share_of(account_id: str) -> float:
    """Return the part of the refresh interval after which an account's first full scan is due again, in (0, 1].

    It differs so that the full scans of all accounts are spread.
    """
    return (crc32(account_id.encode()) + 1) / 2**32

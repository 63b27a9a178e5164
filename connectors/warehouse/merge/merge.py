"""Merges a batch of landed pages into the warehouse, in one transaction: the statements of `sql/`, top to bottom.

A statement costs a millisecond, so those without work are left out. What a kill leaves: before the commit, the
warehouse as it was, and perhaps a part of the raw store above `merged_seq`, which the next opening deletes; after it,
the batch in the inbox, which the next opening deletes up to `merged_seq`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from duckdb import DuckDBPyConnection

from connectors.warehouse.merge.accounts import Account, KnownAccount, Period, list_account
from connectors.warehouse.merge.items import ReadItems, compare_items, find_sighted, write_items, write_raw
from connectors.warehouse.merge.landed import LandedPage, ScanEnd
from connectors.warehouse.merge.reading import Records, Rejected, read_records
from connectors.warehouse.merge.scans import ClosedPartition, close_partition, is_overtaken
from connectors.warehouse.merge.statements import run
from connectors.warehouse.storage.connection import transaction
from models.feeds import LIFETIMES
from models.item import CONTENT_RULE
from models.mapping import Mapping as MediaMapping
from models.media_page import DEFAULT_PATHS, PagePaths
from models.removal import ACCOUNTS_CONFIRM_AFTER_HOURS, CONFIRM_AFTER_HOURS

_UTC = pa.timestamp("us", tz="UTC")
_CONFIRM = {
    "confirm_after": CONFIRM_AFTER_HOURS * 3600,
    "confirm_accounts_after": ACCOUNTS_CONFIRM_AFTER_HOURS * 3600,
}

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """What a merge changed, as in core.run_counts. Removals are made at the end of a run (see removals.py)."""

    pages: int = 0
    items: int = 0
    added: int = 0
    changed: int = 0
    returned: int = 0
    missed: int = 0
    expired: int = 0
    quarantined: int = 0


def merge_batch(
    db: DuckDBPyConnection,
    batch: Sequence[LandedPage],
    mapping: MediaMapping,
    raw: Path,
    paths: PagePaths = DEFAULT_PATHS,
) -> MergeCounts:
    """Merge a batch that `cut_batch` returned; `raw` is the folder of the raw store. Return what it changed.

    The resulting rows do not depend on how landings are divided into batches. Raises duckdb.Error and OSError; nothing
    is merged then.
    """
    with transaction(db):
        return merge_pages(db, batch, mapping, raw, paths)


def merge_pages(
    db: DuckDBPyConnection, batch: Sequence[LandedPage], mapping: MediaMapping, raw: Path, paths: PagePaths
) -> MergeCounts:
    """Merge a batch as `merge_batch` does, in the open transaction."""
    records = read_records(batch, paths)
    arrived = records.arrived()
    findings: list[Row] = []
    read = compare_items(db, records, arrived, mapping)
    raw_seq = write_raw(raw, records, arrived, read)
    sighted = find_sighted(arrived, read)
    counted = _count(records, arrived, read, sighted)
    if records.raws:
        write_items(db, read, sighted, mapping)
    findings.extend(
        _finding(page, "same_id", read.media_ids[n])
        for n in read.numbers("is_same_id").to_pylist()
        for page in [records.pages[records.page_of[n]]]
    )
    if records.accounts:
        findings.extend(_write_accounts(db, records))
    if rejected := sorted([*records.rejected, *read.rejected], key=lambda one: (one.page.seq, one.position or 0)):
        findings.extend(_finding(one.page, "rejected", None) for one in rejected if one.hides_an_id)
        _write_quarantine(db, rejected, counted)
    if findings:
        _register(db, "findings", findings)
        run(db, "81_findings")
    if any(page.outcomes for page in batch):
        _write_outcomes(db, batch)
    if any(page.end for page in batch):
        _close_scans(db, batch, counted)
    if any(counted.values()):
        _register(db, "counted", _rows_of(counted, batch))
        run(db, "98_run_counts")
    run(db, "99_merged", batch[-1].seq, raw_seq, mapping.to_json(), CONTENT_RULE)
    total: Counter[str] = Counter()
    for (_, name), number in counted.items():
        total[name] += number
    return MergeCounts(**total)


def _register(db: DuckDBPyConnection, name: str, rows: Sequence[Mapping[str, object]], **types: pa.DataType) -> None:
    """Offer rows to the statements as a table; columns that may be empty need a type."""
    columns = {column: pa.array([row[column] for row in rows], types.get(column)) for column in rows[0]}
    db.register(name, pa.table(columns))


Counted = Counter[tuple[int, str]]
"""Numbers by run and by the name of what was counted."""


def _count(records: Records, arrived: pa.Table, read: ReadItems, sighted: pa.Table) -> Counted:
    counted = Counted()
    for page, size in zip(records.pages, records.sizes, strict=True):
        if page.scan_id:
            counted[page.run_seq, "pages"] += 1
        counted[page.run_seq, "items"] += size
    changed = pc.and_not(read.flags["is_changed"], read.flags["is_new"])
    for name, numbers in (("added", read.numbers("is_new")), ("changed", read.flags["n"].filter(changed))):
        for run_seq, number in Counter(arrived["run_seq"].take(numbers).to_pylist()).items():
            counted[run_seq, name] += number
    for run_seq in sighted["first_run_seq"].filter(sighted["is_removed"]).to_pylist():
        counted[run_seq, "returned"] += 1
    return counted


def _rows_of(counted: Counted, batch: Sequence[LandedPage]) -> Sequence[Row]:
    names = {page.run_seq: page.run_id for page in batch}
    zeros = {**asdict(MergeCounts()), "removed": 0, "accounts_removed": 0}
    return [
        {"run_seq": run_seq, "run_id": run_id, **{name: counted[run_seq, name] for name in zeros}}
        for run_seq, run_id in names.items()
        if any(counted[run_seq, name] for name in zeros)
    ]


def _finding(page: LandedPage, finding: str, record_id: str | None) -> Row:
    partition = asdict(page.partition)
    return {**partition, "scan_id": page.scan_id, "finding": finding, "record_id": record_id, "seq": page.seq}


def _write_accounts(db: DuckDBPyConnection, records: Records) -> Sequence[Row]:
    """Write the accounts that the batch lists; return the findings about them."""
    stored: dict[str, KnownAccount] = {}
    for row in run(db, "83_known_accounts", [one.account_id for one in records.accounts]).to_arrow_table().to_pylist():
        periods = tuple(Period(**period) for period in row.pop("periods"))
        stored[row["account_id"]] = KnownAccount(Account(**row), periods)
    known, findings = dict(stored), []
    for listed in records.accounts:
        after = list_account(known.get(listed.account_id), listed)
        if after is not None:
            known[listed.account_id] = after
            if after.is_doubled:
                findings.append(_finding(listed.page, "listed_twice", listed.account_id))
    if known:
        _register(db, "listed_accounts", [asdict(one.account) for one in known.values()], **_ACCOUNT_TYPES)
        run(db, "84_accounts")
    changed = [
        asdict(period)
        for key, one in known.items()
        if key not in stored or one.periods != stored[key].periods
        for period in one.periods
    ]
    if changed:
        _register(db, "periods", changed, valid_from=_UTC, valid_to=_UTC)
        run(db, "85_old_periods")
        run(db, "86_periods")
    return findings


_ACCOUNT_TYPES = {
    "missed_at": _UTC, "removed_at": _UTC, "confirmed_by": pa.int64(), "removal": pa.string(),
}  # fmt: skip


def _write_quarantine(db: DuckDBPyConnection, rejected: Sequence[Rejected], counted: Counted) -> None:
    rows: dict[tuple[object, ...], Row] = {}
    for one in rejected:
        page = one.page
        row: Row = {
            "reason": one.reason,
            **asdict(page.partition),
            "page": page.page,
            "position": one.position,
            "payload": one.payload,
            "run_id": page.run_id,
            "correlation_id": page.correlation_id,
            "seen_at": page.received_at,
            "digest": one.digest,
        }
        first = rows.setdefault((page.partition, one.reason, one.digest), row)
        first["last_seen_at"] = page.received_at
    _register(
        db, "quarantined", list(rows.values()),
        position=pa.int32(), correlation_id=pa.string(), digest=pa.uint64(), seen_at=_UTC, last_seen_at=_UTC,
    )  # fmt: skip
    run_seqs = {one.page.run_id: one.page.run_seq for one in rejected}
    for action, run_id in run(db, "80_quarantine").fetchall():
        if action == "INSERT":
            counted[run_seqs[run_id], "quarantined"] += 1


def _write_outcomes(db: DuckDBPyConnection, batch: Sequence[LandedPage]) -> None:
    last = {(one.run_id, one.partition): (page.run_seq, one) for page in batch for one in page.outcomes}
    rows = []
    for run_seq, outcome in last.values():
        row = asdict(outcome)
        rows.append({"run_seq": run_seq, **row.pop("partition"), "outcome": str(row.pop("kind")), **row})
    _register(
        db, "outcomes", rows,
        error_code=pa.string(), http_status=pa.int32(), correlation_id=pa.string(), resume_after=_UTC,
        detail=pa.string(), started_at=_UTC, ended_at=_UTC,
    )  # fmt: skip
    run(db, "82_outcomes")


def _close_scans(db: DuckDBPyConnection, batch: Sequence[LandedPage], counted: Counted) -> None:
    """Mark what the closed scans of the batch missed, and remember these scans."""
    ended = [(page, page.end) for page in batch if page.end is not None]
    _register(
        db, "ends", [{"n": n, **asdict(page.partition), "scan_id": page.scan_id} for n, (page, _) in enumerate(ended)]
    )
    closing: list[dict[str, Any]] = []
    befores: dict[int, ClosedPartition | None] = {}
    for n, before, is_blocked in run(db, "90_closing").fetchall():
        page, end = ended[n]
        befores[n] = None if before is None else ClosedPartition(**before)
        if not is_overtaken(befores[n], page, end):
            closing.append(_closing(n, page, end, is_blocked=is_blocked))
    if not closing:
        return
    _register(db, "closing", closing, started_at=_UTC, closed_at=_UTC, covered_from=_UTC, lifetime=pa.int64())
    run(db, "91_missed", lists=_CONFIRM)
    missed: set[int] = set()
    for n, run_seq, _, first_missed, expired in run(db, "92_missed_counts").fetchall():
        missed.add(n)
        counted[run_seq, "missed"] += first_missed
        counted[run_seq, "expired"] += expired
    if missed:
        run(db, "93_missed_items")
    if any(name == "expired" and number for (_, name), number in counted.items()):
        run(db, "94_expired")
    if any(row["resource"] == "accounts" for row in closing):
        run(db, "95_missed_accounts", lists=_CONFIRM)
    closed = []
    for row in closing:
        page, end = ended[row["n"]]
        is_undecided = row["is_blocked"] and (row["n"] in missed or row["resource"] == "accounts")
        closed.append(asdict(close_partition(befores[row["n"]], page, end, is_undecided=is_undecided)))
    _register(
        db, "closed", closed,
        complete_at=_UTC, recent_at=_UTC, covered_from=_UTC, removals_undecided_since=_UTC, item_order=pa.string(),
        order_broken_by=pa.string(),
    )  # fmt: skip
    run(db, "96_closed_scans")
    run(db, "97_old_findings")


def _closing(n: int, page: LandedPage, end: ScanEnd, *, is_blocked: bool) -> dict[str, Any]:
    lifetime = LIFETIMES.get(page.partition.surface)
    return {
        "n": n,
        **asdict(page.partition),
        "began_seq": page.began_seq,
        "started_at": end.started_at,
        "closed_at": page.received_at,
        "is_recent": end.state == "recent",
        "covered_from": end.read_to,
        "is_blocked": is_blocked,
        "decides": not is_blocked and not end.had_expired_token,
        "run_seq": page.run_seq,
        "lifetime": None if lifetime is None else int(lifetime.total_seconds()),
    }

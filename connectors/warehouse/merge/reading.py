"""Splits landed pages into their records: items with hashes of their bytes, accounts, and rejected ones. No IO."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter

import pyarrow as pa
from xxhash import xxh3_64_intdigest

from models.api import Page, Unreadable, read_account_page, read_media_page
from models.checkpoint import Landing
from models.item import read_item
from models.mapping import Field
from models.mapping import Mapping as MediaMapping
from models.values import RejectedItem, decode_record

_OF_PAGE = (
    ("partition.account_id", pa.string()), ("partition.surface", pa.string()), ("seq", pa.int64()),
    ("began_seq", pa.int64()), ("received_at", pa.timestamp("us", tz="UTC")), ("run_seq", pa.int64()),
)  # fmt: skip


@dataclass(slots=True)
class Records:
    """The records of a batch, in the order in which they were listed. An item's number is its place in `raws`.

    `page_of` and `position` are the page of each item, as its place among `pages`, and its place on that page.
    `unknown_fields` are those of accounts and pages that the API's contract does not define. `accounts` are rows of a
    catalogue with their page: the id in lower case, because ids are case-insensitive (API 2), and what the record
    `said`; None if it is malformed. `rejected` are rows of core.quarantine with the landing of their page. `findings`
    are pages, and what core.scan_findings has of them. `counted` are numbers by run, and column of core.run_counts.
    """

    pages: Sequence[Landing]
    raws: list[bytes] = field(default_factory=list)
    page_of: list[int] = field(default_factory=list)
    position: list[int] = field(default_factory=list)
    accounts: list[dict[str, object]] = field(default_factory=list)
    rejected: list[dict[str, object]] = field(default_factory=list)
    unknown_fields: list[Field] = field(default_factory=list)
    findings: list[tuple[Landing, str, str | None]] = field(default_factory=list)
    counted: Counter[tuple[int, str]] = field(default_factory=Counter)

    def page(self, number: int) -> Landing:
        """Return the page of an item."""
        return self.pages[self.page_of[number]]

    def arrived(self) -> pa.Table:
        """Return the items as a table: number, partition, landing, and the hash of the bytes."""
        pages = pa.table(
            {name.rpartition(".")[2]: pa.array(map(attrgetter(name), self.pages), kind) for name, kind in _OF_PAGE}
        )
        return (
            pages.take(pa.array(self.page_of, pa.int64()))
            .append_column("n", pa.array(range(len(self.raws)), pa.int64()))
            .append_column("position", pa.array(self.position, pa.int32()))
            .append_column("payload_hash", pa.array(map(xxh3_64_intdigest, self.raws), pa.uint64()))
        )

    def reject(
        self, page: Landing, position: int | None, reason: str, payload: str, digest: int, *, has_id: bool = False
    ) -> None:
        """Add a record that goes to quarantine, or a whole page without a position. `digest` tells equal ones.

        Unless it `has_id`, any record that the scan seems to miss may be this one, which is a finding.
        """
        about = {**asdict(page.partition), **pick(page, ("seq", "page", "run_id", "correlation_id"))}
        # An unsigned one of 64 bits.
        told = {"position": position, "reason": reason, "payload": payload, "digest": str(digest)}
        self.rejected.append({**about, **told, "seen_at": page.received_at})
        if not has_id:
            self.findings.append((page, "rejected", None))


def pick(values: object, names: Sequence[str]) -> dict[str, object]:
    """Return these attributes of an object, by name."""
    return {name: getattr(values, name) for name in names}


def read_records(batch: Sequence[Landing]) -> Records:
    """Return the records of the pages of a batch; items are not decoded yet."""
    records = Records([page for page in batch if page.body])
    for number, page in enumerate(records.pages):
        # Records from the quarantine, which no scan asked for, were counted when they were received.
        counts = page.scan_id != ""
        records.counted[page.run_seq, "pages"] += counts
        try:
            if page.partition.account_id:
                read = read_media_page(page.body)
                records.raws.extend(read.records)
                records.page_of.extend([number] * len(read.records))
                records.position.extend(range(len(read.records)))
            else:
                read = read_account_page(page.body)
                _list_accounts(records, page, read)
        except Unreadable as error:
            reason, digest = f"The page cannot be read: {error}.", xxh3_64_intdigest(page.body)
            # It may have any bytes.
            text = page.body.replace(b"\0", b"\\x00").decode(errors="backslashreplace")
            records.reject(page, None, reason, text, digest)
            continue
        records.counted[page.run_seq, "items"] += counts * len(read.records)
        of_page = "media_page" if page.partition.account_id else "account_page"
        for name in sorted(read.unknown_fields):
            resource = "account" if name.startswith("items[].") else of_page
            path = name.removeprefix("items[].")
            records.unknown_fields.append(
                Field(resource, path, frozenset(), is_count=False, first_seen_at=page.received_at)
            )
    return records


def _list_accounts(records: Records, page: Landing, read: Page) -> None:
    about = pick(page, ("seq", "began_seq", "received_at", "run_seq", "scan_id"))
    for one in read.accounts:
        said = pick(one, ("ig_username", "public_id", "status"))
        records.accounts.append({**about, "account_id": one.id.lower(), "said": {"listed_as": one.id, **said}})
    for record in read.rejected:
        if (account_id := record.account_id) is not None:
            records.accounts.append({**about, "account_id": account_id.lower(), "said": None})
        text, digest = record.payload, xxh3_64_intdigest(record.payload.encode())
        records.reject(page, record.position, record.reason, text, digest, has_id=account_id is not None)


def digest_rejected(raw: bytes, error: RejectedItem, mapping: MediaMapping) -> int:
    """Return the hash by which a rejected item is recognized: that of its content if only its id is missing."""
    if error.code in ("no_id", "inexact_id"):
        first = mapping.media_id[0].strip("/")
        if "/" not in first:
            return read_item({**decode_record(raw), first: "0"}, mapping).content_hash
    return xxh3_64_intdigest(raw)

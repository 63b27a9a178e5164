"""Splits landed pages into their records: items with hashes of their bytes, accounts, and rejected ones. No IO."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import pyarrow as pa
from xxhash import xxh3_64_intdigest

from models.api import Unreadable, read_account_page, read_media_page
from models.checkpoint import Landing
from models.item import read_item
from models.mapping import Field, MediaMapping
from models.values import RejectedItem, decode_record

_OF_PAGE = {
    **dict.fromkeys(("seq", "began_seq", "run_seq"), pa.int64()),
    **dict.fromkeys(("partition.resource", "partition.account_id", "partition.surface"), pa.string()),
    **dict.fromkeys(("scan_id", "run_id", "correlation_id"), pa.string()),
    "page": pa.int32(),
    "received_at": pa.timestamp("us", tz="UTC"),
}

Counted = Counter[tuple[int, str]]
"""Numbers by run, and by the column of core.run_counts."""


@dataclass(slots=True)
class Records:
    """The records of a batch, in the order in which they were listed. An item's number is its place in `raws`.

    `page_of` and `position` are the page of each item, as its place among `pages`, and its place on that page.
    `unknown_fields` are those of accounts and pages that the API's contract does not define. `accounts` are listings by
    a catalogue: the landing, the id in lower case, because ids are case-insensitive (API 2), and what the record
    `said`; None if it is malformed. `rejected` are the landings, places, reasons and payloads of records that go to
    quarantine; `digest` tells equal ones.
    """

    pages: Sequence[Landing]
    raws: list[bytes] = field(default_factory=list)
    page_of: list[int] = field(default_factory=list)
    position: list[int] = field(default_factory=list)
    accounts: list[dict[str, object]] = field(default_factory=list)
    rejected: list[dict[str, object]] = field(default_factory=list)
    unknown_fields: list[Field] = field(default_factory=list)
    counted: Counted = field(default_factory=Counter)

    def page(self, number: int) -> Landing:
        """Return the page of an item."""
        return self.pages[self.page_of[number]]

    def table_of_pages(self) -> pa.Table:
        """Return the pages as a table, without their bodies."""
        return pa.table(
            {
                name.rpartition(".")[2]: pa.array(map(attrgetter(name), self.pages), kind)
                for name, kind in _OF_PAGE.items()
            }
        )

    def table_of_items(self) -> pa.Table:
        """Return a row for each item: its number, what its page has, its place there, and the hash of its bytes."""
        # Of each item's page only what statements and the raw store need.
        pages = self.table_of_pages().drop_columns(["resource", "scan_id", "page"])
        return (
            pages.take(pa.array(self.page_of, pa.int64()))
            .append_column("n", pa.array(range(len(self.raws)), pa.int64()))
            .append_column("position", pa.array(self.position, pa.int32()))
            .append_column("payload_hash", pa.array(map(xxh3_64_intdigest, self.raws), pa.uint64()))
        )

    def reject(
        self, page: Landing, position: int | None, reason: str, payload: str, digest: int, *, has_id: bool = False
    ) -> None:
        """Add a record that goes to quarantine, or a whole page without a position.

        Unless it `has_id`, any record that the scan seems to miss may be this one.
        """
        # The digest is an unsigned number of 64 bits.
        told = {"reason": reason, "payload": payload, "digest": str(digest), "has_id": has_id}
        self.rejected.append({"seq": page.seq, "position": position, **told})


def read_records(batch: Sequence[Landing]) -> Records:
    """Return the records of the pages of a batch; items are not decoded yet."""
    records = Records([page for page in batch if page.body])
    for number, page in enumerate(records.pages):
        # Records from the quarantine, which no scan asked for, were counted when they were received.
        counts = page.scan_id != ""
        records.counted[page.run_seq, "pages"] += counts
        is_media = page.partition.account_id != ""
        try:
            read = (read_media_page if is_media else read_account_page)(page.body)
        except Unreadable as error:
            # It may have any bytes.
            text = page.body.replace(b"\0", b"\\x00").decode(errors="backslashreplace")
            records.reject(page, None, f"The page cannot be read: {error}.", text, xxh3_64_intdigest(page.body))
            continue
        records.counted[page.run_seq, "items"] += counts * len(read.records)
        if is_media:
            records.raws.extend(read.records)
            records.page_of.extend([number] * len(read.records))
            records.position.extend(range(len(read.records)))
        for one in read.accounts:
            said = {
                "listed_as": one.id,
                "ig_username": one.ig_username,
                "public_id": one.public_id,
                "status": one.status,
            }
            records.accounts.append({"seq": page.seq, "account_id": one.id.lower(), "said": said})
        for record in read.rejected:
            if has_id := record.account_id is not None:
                records.accounts.append({"seq": page.seq, "account_id": record.account_id.lower(), "said": None})
            digest = xxh3_64_intdigest(record.payload.encode())
            records.reject(page, record.position, record.reason, record.payload, digest, has_id=has_id)
        for name in sorted(read.unknown_fields):
            path = name.removeprefix("items[].")
            resource = "account" if path != name else "media_page" if is_media else "account_page"
            found = Field(resource, path, frozenset(), is_count=False, first_seen_at=page.received_at)
            records.unknown_fields.append(found)
    return records


def digest_rejected(raw: bytes, error: RejectedItem, mapping: MediaMapping) -> int:
    """Return the hash by which a rejected item is recognized: that of its content if only its id is missing."""
    if error.code in ("no_id", "inexact_id"):
        first = mapping.media_id[0].strip("/")
        if "/" not in first:
            return read_item({**decode_record(raw), first: "0"}, mapping, {}, 0).content_hash
    return xxh3_64_intdigest(raw)

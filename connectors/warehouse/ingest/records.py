"""Reads accounts, rejected records and unknown fields of landed pages, so that the merge's SQL parses no JSON."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec
import pyarrow as pa

from connectors.warehouse.ingest.arrays import array_of, array_of_instants
from connectors.warehouse.ingest.split import Page, raw_items
from models.page_commit import ReceivedPage
from models.partial_json import certain_id
from models.partition import CATALOGUE

_NO_ACCOUNT = "It is no account."
_NO_PAGE = "The page is not JSON."

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_text = msgspec.json.Decoder(str)
# The fields of a valid record, in the order of `AccountRow`.
_OF_ACCOUNT = {"id": _text, "ig_username": _text, "public_id": _text, "status": _text}
_NULL = msgspec.Raw(b"null")


class AccountRow(NamedTuple):
    """A listed account; `listed_as` is its id as received. A rejected record has no status."""

    seq: int
    position: int
    listed_as: str
    ig_username: str | None = None
    public_id: str | None = None
    status: str | None = None
    unknown_status: str | None = None


class RejectedRow(NamedTuple):
    """A rejected record; without a position it is the whole page."""

    seq: int
    resource: str
    position: int | None
    reason: str
    payload: str


class FieldRow(NamedTuple):
    """A field that the contract does not know, and when it was first received."""

    resource: str
    path: str
    first_seen_at: datetime


@dataclass(frozen=True, slots=True)
class Records:
    """What landed pages contain besides media items. `accounts` are also in `rejected` if they have no status.

    `unreadable` are the landing numbers of pages that cannot be parsed; each is in `rejected` as a whole.
    """

    accounts: Sequence[AccountRow]
    rejected: Sequence[RejectedRow]
    unknown_fields: Sequence[FieldRow]
    unreadable: Collection[int]


_NUMBERS = {"seq": pa.int64(), "position": pa.int32()}
_INSTANT = "first_seen_at"


def table_of(row_class: type[NamedTuple], rows: Sequence[NamedTuple]) -> pa.Table:
    """Return an Arrow table with rows of this class."""
    columns = zip(*rows, strict=True) if rows else [()] * len(row_class._fields)
    return pa.table(
        {
            name: array_of_instants(column) if name == _INSTANT else array_of(column, _NUMBERS.get(name, pa.string()))
            for name, column in zip(row_class._fields, columns, strict=True)
        }
    )


def _accounts(
    seq: int, body: bytes | memoryview, known: Collection[int | None]
) -> tuple[list[AccountRow], list[RejectedRow]]:
    """Return the accounts and the malformed records of a page, except for the positions in `known`.

    A malformed record with an id is also among the accounts, without a status.
    """
    found: list[AccountRow] = []
    rejected: list[RejectedRow] = []
    for position, raw in enumerate(raw_items(body)):
        if position in known:
            continue
        try:
            # The last one of duplicate keys counts, as when the page was received. Other fields may have any value.
            fields = _object.decode(raw)
            values = (decoder.decode(fields.get(name, _NULL)) for name, decoder in _OF_ACCOUNT.items())
            found.append(AccountRow(seq, position, *values))
        except (msgspec.MsgspecError, RecursionError):
            text = bytes(raw)
            rejected.append(RejectedRow(seq, "accounts", position, _NO_ACCOUNT, text.decode()))
            if (listed_as := certain_id(text)) is not None:
                found.append(AccountRow(seq, position, listed_as))
    return found, rejected


_IN_ITEMS = "items[]."


def _unknown_field(resource: str, path: str, received_at: datetime) -> FieldRow:
    if resource != CATALOGUE.resource:
        return FieldRow(f"{resource}_page", path, received_at)
    of = "account" if path.startswith(_IN_ITEMS) else "account_page"
    return FieldRow(of, path.removeprefix(_IN_ITEMS), received_at)


def read_records(
    pages: Sequence[tuple[int, ReceivedPage]], account_pages: Sequence[Page], unreadable_media: Sequence[Page]
) -> Records:
    """Return accounts, rejected records and unknown fields of pages. Unreadable pages have no other records."""
    accounts: list[AccountRow] = []
    rejected: list[RejectedRow] = []
    unknown_fields: dict[tuple[str, str], FieldRow] = {}
    bodies, unreadable = dict(account_pages), dict(unreadable_media)
    for seq, page in pages:
        if seq in bodies:
            try:
                found, malformed = _accounts(seq, bodies[seq], {one.position for one in page.rejected})
            except (msgspec.DecodeError, RecursionError):
                unreadable[seq] = bodies[seq]
            else:
                accounts += found
                rejected += malformed
        resource = page.partition.resource
        if seq in unreadable:
            rejected.append(RejectedRow(seq, resource, None, _NO_PAGE, str(unreadable[seq], "utf-8")))
            continue
        for one in page.rejected:
            rejected.append(RejectedRow(seq, resource, one.position, one.reason, one.payload))
            listed_as = certain_id(one.payload.encode()) if resource == CATALOGUE.resource else None
            if listed_as is not None and one.position is not None:
                accounts.append(AccountRow(seq, one.position, listed_as, unknown_status=one.unknown_status))
        for path in page.unknown_fields:
            row = _unknown_field(resource, path, page.received_at)
            unknown_fields.setdefault(row[:2], row)
    return Records(accounts, rejected, list(unknown_fields.values()), unreadable.keys())

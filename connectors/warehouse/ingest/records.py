"""Reads the accounts and the metadata of staged pages, so that the merge's SQL parses no JSON."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.ingest.arrays import array_of
from connectors.warehouse.ingest.split import Page
from models.partial_json import certain_id

_LANDED = """
SELECT seq, resource, rejected, unknown_fields FROM ops.staging
WHERE rejected IS NOT NULL OR unknown_fields IS NOT NULL ORDER BY seq
"""

_NO_ACCOUNT = "It is no account."


class _Page(msgspec.Struct):
    items: list[msgspec.Raw]


class _Account(msgspec.Struct):
    id: str
    ig_username: str
    public_id: str
    status: str


class _Rejected(msgspec.Struct):
    position: int | None
    reason: str
    payload: str
    unknown_status: str | None = None


class _Listed(msgspec.Struct):
    id: str


_page = msgspec.json.Decoder(_Page)
_object = msgspec.json.Decoder(dict[str, Any])
_rejected = msgspec.json.Decoder(list[_Rejected])
_listed = msgspec.json.Decoder(_Listed)
_paths = msgspec.json.Decoder(list[str])


class AccountRow(NamedTuple):
    """A listed account; `listed_as` is its id as received."""

    seq: int
    position: int
    listed_as: str
    ig_username: str
    public_id: str
    status: str


class RejectedRow(NamedTuple):
    """A rejected record; without a position it is the whole page."""

    seq: int
    resource: str
    position: int | None
    reason: str
    payload: str
    listed_as: str | None
    unknown_status: str | None


class PathRow(NamedTuple):
    """A field that the contract does not know."""

    seq: int
    path: str


class UnreadableRow(NamedTuple):
    """A page that cannot be parsed."""

    seq: int
    body: str


@dataclass(frozen=True, slots=True)
class Records:
    """What staged pages contain besides media items, each with the landing number `seq` of its page."""

    accounts: Sequence[AccountRow]
    rejected: Sequence[RejectedRow]
    unknown_paths: Sequence[PathRow]
    unreadable: Sequence[UnreadableRow]


_TYPES = {"seq": (pa.int64(), "BIGINT"), "position": (pa.int32(), "INTEGER")}
_TEXT = (pa.string(), "VARCHAR")


def columns_of(row_class: type[NamedTuple]) -> str:
    """Return the names and the DuckDB types of the columns of a table with these rows."""
    return ", ".join(f"{name} {_TYPES.get(name, _TEXT)[1]}" for name in row_class._fields)


def table_of(rows: Sequence[NamedTuple]) -> pa.Table:
    """Return an Arrow table with the rows, at least one, of the same class."""
    columns = zip(rows[0]._fields, zip(*rows, strict=True), strict=True)
    return pa.table({name: array_of(column, _TYPES.get(name, _TEXT)[0]) for name, column in columns})


def _listed_as(payload: str) -> str | None:
    try:
        return _listed.decode(payload).id
    except (msgspec.DecodeError, RecursionError):
        return certain_id(payload.encode())


def _accounts(
    seq: int, body: bytes | memoryview, known: Collection[int | None]
) -> tuple[list[AccountRow], list[RejectedRow]]:
    """Return the valid and the malformed accounts of a page, except for the positions in `known`."""
    found: list[AccountRow] = []
    rejected: list[RejectedRow] = []
    for position, raw in enumerate(_page.decode(body).items):
        if position in known:
            continue
        try:
            # The last one of duplicate keys counts, as when the page was received.
            account = msgspec.convert(_object.decode(raw), _Account)
        except (msgspec.MsgspecError, RecursionError):
            text = bytes(raw).decode()
            rejected.append(RejectedRow(seq, "accounts", position, _NO_ACCOUNT, text, None, None))
        else:
            found.append(AccountRow(seq, position, account.id, account.ig_username, account.public_id, account.status))
    return found, rejected


def read_records(db: DuckDBPyConnection, account_pages: Sequence[Page], unreadable_media: Sequence[Page]) -> Records:
    """Return accounts, rejected records and unknown fields of staged pages. Unreadable pages have no other records."""
    accounts: list[AccountRow] = []
    rejected: list[RejectedRow] = []
    paths: list[PathRow] = []
    unreadable = list(unreadable_media)
    for seq, resource, rejected_json, unknown_fields in db.execute(_LANDED).fetchall():
        rejected += [
            RejectedRow(
                seq,
                resource,
                one.position,
                one.reason,
                one.payload,
                _listed_as(one.payload) if resource == "accounts" else None,
                one.unknown_status,
            )
            for one in _rejected.decode(rejected_json or "[]")
        ]
        paths += [PathRow(seq, path) for path in _paths.decode(unknown_fields or "[]")]
    known: dict[int, set[int | None]] = {}
    for row in rejected:
        known.setdefault(row.seq, set()).add(row.position)
    for seq, body in account_pages:
        try:
            found, malformed = _accounts(seq, body, known.get(seq, ()))
        except (msgspec.DecodeError, RecursionError):
            unreadable.append((seq, body))
        else:
            accounts += found
            rejected += malformed
    left_out = {seq for seq, _ in unreadable}
    return Records(
        accounts,
        [row for row in rejected if row.seq not in left_out],
        [row for row in paths if row.seq not in left_out],
        [UnreadableRow(seq, str(body, "utf-8")) for seq, body in unreadable],
    )

"""Registers the accounts and the metadata of staged pages as tables, so that the merge's SQL parses no JSON."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.ingest.arrays import array_of
from connectors.warehouse.ingest.split import Page

_LANDED = """
SELECT seq, rejected, unknown_fields FROM ops.staging
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


class _AccountRow(NamedTuple):
    seq: int
    position: int
    listed_as: str
    ig_username: str
    public_id: str
    status: str


class _RejectedRow(NamedTuple):
    seq: int
    position: int | None
    reason: str
    payload: str
    listed_as: str | None
    unknown_status: str | None


class _PathRow(NamedTuple):
    seq: int
    path: str


_TYPES = {"seq": pa.int64(), "position": pa.int32()}


def _listed_as(payload: str) -> str | None:
    try:
        return _listed.decode(payload).id
    except (msgspec.DecodeError, RecursionError):
        return None


def _accounts(seq: int, body: bytes, known: Collection[int | None]) -> tuple[list[_AccountRow], list[_RejectedRow]]:
    """Return the valid and the malformed accounts of a page, except for the positions in `known`."""
    found: list[_AccountRow] = []
    rejected: list[_RejectedRow] = []
    for position, raw in enumerate(_page.decode(body).items):
        if position in known:
            continue
        try:
            # The last one of duplicate keys counts, as when the page was received.
            account = msgspec.convert(_object.decode(raw), _Account)
        except (msgspec.MsgspecError, RecursionError):
            text = bytes(raw).decode()
            rejected.append(_RejectedRow(seq, position, _NO_ACCOUNT, text, None, None))
        else:
            found.append(_AccountRow(seq, position, account.id, account.ig_username, account.public_id, account.status))
    return found, rejected


def _table(rows: Sequence[NamedTuple], row_class: type[NamedTuple]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(row_class._fields)
    return pa.table(
        {
            name: array_of(column, _TYPES.get(name, pa.string()))
            for name, column in zip(row_class._fields, columns, strict=True)
        }
    )


def register_records(db: DuckDBPyConnection, account_pages: Sequence[Page]) -> list[Page]:
    """Register tables of everything in staged pages except media; return the account pages that are not valid JSON.

    `account_items`: seq, position, listed_as (the account's id as received), ig_username, public_id, status.
    `rejected_records`: seq, position (NULL: the whole page), reason, payload, listed_as, unknown_status.
    `unknown_paths`: seq, path of a field that the contract does not know.
    """
    accounts: list[_AccountRow] = []
    rejected: list[_RejectedRow] = []
    paths: list[_PathRow] = []
    unreadable: list[Page] = []
    for seq, rejected_json, unknown_fields in db.execute(_LANDED).fetchall():
        rejected += [
            _RejectedRow(seq, each.position, each.reason, each.payload, _listed_as(each.payload), each.unknown_status)
            for each in _rejected.decode(rejected_json or "[]")
        ]
        paths += [_PathRow(seq, path) for path in _paths.decode(unknown_fields or "[]")]
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
    db.register("account_items", _table(accounts, _AccountRow))
    db.register("rejected_records", _table(rejected, _RejectedRow))
    db.register("unknown_paths", _table(paths, _PathRow))
    return unreadable

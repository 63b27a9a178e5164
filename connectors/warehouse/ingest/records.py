"""Writes the accounts and the metadata of staged pages to tables, so that the merge's SQL parses no JSON."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from duckdb import DuckDBPyConnection

from connectors.warehouse.ingest.arrays import array_of
from connectors.warehouse.ingest.split import Page

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


class _AccountRow(NamedTuple):
    seq: int
    position: int
    listed_as: str
    ig_username: str
    public_id: str
    status: str


class _RejectedRow(NamedTuple):
    seq: int
    resource: str
    position: int | None
    reason: str
    payload: str
    listed_as: str | None
    unknown_status: str | None


class _PathRow(NamedTuple):
    seq: int
    path: str


@dataclass(frozen=True, slots=True)
class Records:
    """What staged pages contain besides media items.

    `unreadable` are the pages that cannot be parsed, `are_rejected` says whether any record was rejected, and
    `are_unknown` whether there is any field that the contract does not know.
    """

    unreadable: Sequence[Page]
    are_rejected: bool
    are_unknown: bool


_TYPES = {"seq": (pa.int64(), "BIGINT"), "position": (pa.int32(), "INTEGER")}
_TEXT = (pa.string(), "VARCHAR")


def _listed_as(payload: str) -> str | None:
    try:
        return _listed.decode(payload).id
    except (msgspec.DecodeError, RecursionError):
        return None


def _accounts(
    seq: int, body: bytes | memoryview, known: Collection[int | None]
) -> tuple[list[_AccountRow], list[_RejectedRow]]:
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
            rejected.append(_RejectedRow(seq, "accounts", position, _NO_ACCOUNT, text, None, None))
        else:
            found.append(_AccountRow(seq, position, account.id, account.ig_username, account.public_id, account.status))
    return found, rejected


def _create(db: DuckDBPyConnection, table: str, rows: Sequence[NamedTuple], row_class: type[NamedTuple]) -> None:
    # Not a registered Arrow table, because DuckDB takes 0.7 ms each time it reads one.
    types = {name: _TYPES.get(name, _TEXT) for name in row_class._fields}
    columns = ", ".join(f"{name} {of_duckdb}" for name, (_, of_duckdb) in types.items())
    db.execute(f"CREATE OR REPLACE TEMP TABLE {table} ({columns})")
    if rows:
        values = zip(types.items(), zip(*rows, strict=True), strict=True)
        db.register("records", pa.table({name: array_of(column, of_arrow) for (name, (of_arrow, _)), column in values}))
        db.execute(f"INSERT INTO {table} FROM records")
        db.unregister("records")


def create_records(db: DuckDBPyConnection, account_pages: Sequence[Page], unreadable_media: Sequence[Page]) -> Records:
    """Create temporary tables of everything in staged pages except media, and except unreadable pages.

    `account_items`: seq, position, listed_as (the account's id as received), ig_username, public_id, status.
    `rejected_records`: seq, resource, position (NULL: the whole page), reason, payload, listed_as, unknown_status.
    `unknown_paths`: seq, path of a field that the contract does not know.
    """
    accounts: list[_AccountRow] = []
    rejected: list[_RejectedRow] = []
    paths: list[_PathRow] = []
    unreadable = list(unreadable_media)
    for seq, resource, rejected_json, unknown_fields in db.execute(_LANDED).fetchall():
        rejected += [
            _RejectedRow(
                seq, resource, one.position, one.reason, one.payload, _listed_as(one.payload), one.unknown_status
            )
            for one in _rejected.decode(rejected_json or "[]")
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
    left_out = {seq for seq, _ in unreadable}
    rejected = [row for row in rejected if row.seq not in left_out]
    paths = [row for row in paths if row.seq not in left_out]
    _create(db, "account_items", accounts, _AccountRow)
    _create(db, "rejected_records", rejected, _RejectedRow)
    _create(db, "unknown_paths", paths, _PathRow)
    return Records(unreadable, bool(rejected), bool(paths))

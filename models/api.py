"""Parsing of API responses (API 2): bytes in, values out.

Parsing is strict where the contract specifies something and tolerant elsewhere: a malformed account or an unknown field
never causes the whole page to be rejected.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import from_json, to_json

from models.item import find_id
from models.mapping import BUILT_IN
from models.media_page import DEFAULT_PATHS, CursorFault, PagePaths, cursor_of, located
from models.page_commit import RejectedRecord
from models.partial_json import Unreadable, certain_id, checked_members, elements, exact_text, repaired
from models.schema.any_json import parse
from models.text import one_line

MAX_ACCOUNTS = 50
UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"

_NOT_JSON = "The record is not JSON."
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# Every escape is matched, so that the second backslash of `\\` is never taken for the start of an escape.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)


class Account(BaseModel):
    """One connected account (API 2). Fields that the contract does not define are kept in `model_extra`."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    id: Annotated[str, Field(pattern=f"^{UUID}$")]
    ig_username: Annotated[str, Field(pattern=r"^[A-Za-z0-9._]+$", min_length=1, max_length=30)]
    public_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9]+$", min_length=12, max_length=16)]
    status: Literal["active", "token_expired"]


@dataclass(frozen=True, slots=True)
class AccountPage:
    """One page of the account list (API 4.1). `body` has its records, with null for each that is not JSON."""

    accounts: tuple[Account, ...]
    rejected: tuple[RejectedRecord, ...]
    next_cursor: str | None
    items: int
    unknown_fields: frozenset[str]
    body: str


@dataclass(frozen=True, slots=True)
class MediaPage:
    """One page of the media list (API 4.2). Its items are not decoded; `items` is their number.

    `body` has the items, repaired, with null for each of the `rejected` ones. With a `cursor_fault` there is no
    `next_cursor`, although the list may not end with this page.
    """

    items: int
    next_cursor: str | None
    unknown_fields: frozenset[str]
    body: str
    rejected: tuple[RejectedRecord, ...] = ()
    cursor_fault: CursorFault | None = None


class Issue(BaseModel):
    """One validation issue of an error's details (API 2)."""

    code: Annotated[str, Field(min_length=1, max_length=64)]
    path: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=16)]


class Details(BaseModel):
    """The details of an error (API 2)."""

    issues: Annotated[list[Issue], Field(max_length=32)] = []


def _or_default(value: object, read: ValidatorFunctionWrapHandler, default: object) -> object:
    try:
        return read(value)
    except ValidationError:
        return default


class ErrorEnvelope(BaseModel):
    """An error response of the API (API 2). An invalid correlation id is None, and invalid details are empty."""

    code: Annotated[str, Field(min_length=1)]
    message: str
    correlation_id: Annotated[str | None, WrapValidator(lambda value, read: _or_default(value, read, None))] = None
    details: Annotated[Details, WrapValidator(lambda value, read: _or_default(value, read, Details()))] = Details()


class _ErrorResponse(BaseModel):
    error: ErrorEnvelope


_raw_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def repair(body: bytes) -> bytes:
    r"""Replace unpaired surrogate escapes (such as the `\ud83d` of a truncated emoji) by `\ufffd`."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], body)


def read_error(body: bytes) -> ErrorEnvelope | None:
    """Parse the error envelope (API 2). Return None if the body is not one, such as a proxy's HTML page."""
    body = body.removeprefix(_BYTE_ORDER_MARK)
    for text in (body, repair(body)):
        with suppress(ValidationError):
            return _ErrorResponse.model_validate_json(text).error
    return None


def read_account_page(body: bytes) -> AccountPage:
    """Parse a page of accounts (API 2). Malformed accounts become rejected records, also those that are not JSON.

    Raises Unreadable if the envelope itself is invalid.
    """
    page = checked_members(body.removeprefix(_BYTE_ORDER_MARK))
    if missing := {"items", "next_cursor"} - page.keys():
        raise Unreadable(f"it has no {min(missing)}")
    cursor = cursor_of(page["next_cursor"])
    if isinstance(cursor, CursorFault):
        raise Unreadable(cursor.message)
    raw = elements(page["items"])
    if len(raw) > MAX_ACCOUNTS:
        raise Unreadable(f"it has more than {MAX_ACCOUNTS} items")
    read = list(map(_read, raw))
    records = [
        _not_json(position, raw[position]) if one is None else _account(position, one[0].decode(), one[1])
        for position, one in enumerate(read)
    ]
    accounts = tuple(record for record in records if isinstance(record, Account))
    unknown = {f"items[].{name}" for account in accounts for name in account.model_extra or ()} | page.keys()
    return AccountPage(
        accounts,
        tuple(record for record in records if isinstance(record, RejectedRecord)),
        cursor,
        len(raw),
        frozenset(unknown - {"items", "next_cursor"}),
        _page_of(_list_of(read), cursor),
    )


def read_media_page(body: bytes, paths: PagePaths = DEFAULT_PATHS) -> MediaPage:
    """Parse a page of media, whose shape is not published (API 4.2). `paths` says where its list and cursor are.

    Items that are not JSON are repaired if the result is certain, and `rejected` otherwise. Raises Unreadable if the
    list of items is not found, or does not end.
    """
    items, cursor, others = located(body.removeprefix(_BYTE_ORDER_MARK), paths)
    fault = cursor if isinstance(cursor, CursorFault) else None
    next_cursor = cursor if isinstance(cursor, str) else None
    number, text, rejected = _media_items(items, next_cursor)
    return MediaPage(number, next_cursor, others, text, rejected, fault)


def _media_items(items: bytes, next_cursor: str | None) -> tuple[int, str, tuple[RejectedRecord, ...]]:
    """Return the number of items of a list, a page that has null for those that are not JSON, and these."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return len(_raw_items(items)), _page_of(items, next_cursor), ()
    raw = elements(items)
    read = list(map(_read, raw))
    rejected = tuple(_not_json(position, raw[position]) for position, one in enumerate(read) if one is None)
    return len(raw), _page_of(_list_of(read), next_cursor), rejected


def _list_of(records: Sequence[tuple[bytes, Any] | None]) -> bytes:
    return b"[" + b",".join(b"null" if one is None else one[0] for one in records) + b"]"


def _page_of(items: bytes, cursor: str | None) -> str:
    return (b'{"items":' + items + b',"next_cursor":' + to_json(cursor) + b"}").decode()


def _read(raw: bytes) -> tuple[bytes, Any] | None:
    """Return a record, repaired if it is not JSON and the result is certain, with its value; None if it is not JSON."""
    with suppress(ValueError):
        return raw, from_json(raw, allow_inf_nan=False)
    text = repair(repaired(raw))
    with suppress(ValueError, RecursionError):
        # The parser above limits the digits of an integer.
        value = parse(text.decode())
        # Repaired, different ids may be equal.
        return None if "\N{REPLACEMENT CHARACTER}" in (find_id(value, BUILT_IN) or "") else (text, value)
    return None


def _not_json(position: int, raw: bytes) -> RejectedRecord:
    account_id = certain_id(raw)
    is_valid = account_id is not None and re.fullmatch(UUID, account_id)
    return RejectedRecord(position, _NOT_JSON, exact_text(raw), account_id if is_valid else None)


def _account(position: int, payload: str, value: Any) -> Account | RejectedRecord:  # noqa: ANN401 - JSON
    try:
        return Account.model_validate(value)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
    reason = one_line("; ".join(": ".join([*map(str, at["loc"]), at["msg"]]) for at in details))
    wrong = [at["loc"] for at in details]
    if not isinstance(value, dict) or ("id",) in wrong:
        return RejectedRecord(position, reason, payload)
    if wrong != [("status",)]:
        return RejectedRecord(position, reason, payload, value["id"])
    status = value.get("status")
    text = status if isinstance(status, str) else to_json(status, inf_nan_mode="strings").decode()
    return RejectedRecord(position, reason, payload, value["id"], one_line(text, 80))

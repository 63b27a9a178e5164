"""Parsing of API responses (API 2): bytes in, values out.

Parsing is strict where the contract specifies something and tolerant elsewhere: a malformed account or an unknown field
never causes the whole page to be rejected.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json, to_json

from models.media_page import DEFAULT_PATHS, CursorFault, PagePaths, locate_items, read_cursor
from models.partial_json import Unreadable, checked_members, count_elements, elements, repair
from models.text import one_line

MAX_ACCOUNTS = 50
UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"

_NOT_UTF8 = "The record has bytes that are not UTF-8."
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Account(BaseModel):
    """One connected account (API 2). Fields that the contract does not define are kept in `model_extra`."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    id: Annotated[str, Field(pattern=f"^{UUID}$")]
    ig_username: Annotated[str, Field(pattern=r"^[A-Za-z0-9._]+$", min_length=1, max_length=30)]
    public_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9]+$", min_length=12, max_length=16)]
    status: Literal["active", "token_expired"]


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that goes to quarantine: its position on the page, from 0, the reason, and its JSON text.

    Without a position it is the whole page.

    `account_id` is the id of an account with a valid id and another invalid field. If that field is the status alone,
    with a value that is unknown (API 3), `unknown_status` is this value.
    """

    position: int | None
    reason: str
    payload: str
    account_id: str | None = None
    unknown_status: str | None = None


@dataclass(frozen=True, slots=True)
class AccountPage:
    """One page of the account list (API 4.1).

    `received` are its bytes as the API sent them, without the API key around its records; `records` are those of its
    records.
    """

    accounts: tuple[Account, ...]
    rejected: tuple[RejectedRecord, ...]
    next_cursor: str | None
    unknown_fields: frozenset[str]
    received: bytes
    records: tuple[bytes, ...]

    @property
    def items(self) -> int:
        """Return the number of its records."""
        return len(self.records)


@dataclass(frozen=True, slots=True)
class MediaPage:
    """One page of the media list (API 4.2). Its items are not decoded; `items` is their number.

    `received` are its bytes as the API sent them, without the API key around its items. `body` has the items, with a
    text for each one that is not UTF-8. With a `cursor_fault` there is no `next_cursor`, although the list may not end
    with this page.
    """

    items: int
    next_cursor: str | None
    received: bytes
    body: str
    cursor_fault: CursorFault | None = None


class Issue(BaseModel):
    """One validation issue of an error's details (API 2)."""

    code: Annotated[str, Field(min_length=1, max_length=64)]
    path: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=16)]


class _Details(BaseModel):
    issues: Annotated[list[Issue], Field(max_length=32)] = []


class ErrorEnvelope(BaseModel):
    """An error response of the API (API 2). Its correlation id and details may be anything."""

    code: Annotated[str, Field(min_length=1)]
    message: str
    correlation_id: Any = None
    details: Any = None

    @property
    def issues(self) -> Sequence[Issue]:
        """Return the validation issues of the details; none if these are invalid."""
        with suppress(ValidationError):
            return _Details.model_validate(self.details).issues
        return ()


class _ErrorResponse(BaseModel):
    error: ErrorEnvelope


def read_error(body: bytes) -> ErrorEnvelope | None:
    """Parse the error envelope (API 2). Return None if the body is not one, such as a proxy's HTML page."""
    with suppress(ValidationError):
        return _ErrorResponse.model_validate_json(repair(body.removeprefix(_BYTE_ORDER_MARK))).error
    return None


Hide = Callable[[bytes], bytes]


def read_account_page(body: bytes, hide: Hide = bytes) -> AccountPage:
    """Parse a page of accounts (API 2). Malformed accounts, also those that are not UTF-8, become rejected records.

    What is around the list of accounts is received as `hide` returns it. Raises Unreadable if the envelope itself is
    invalid.
    """
    text = body.removeprefix(_BYTE_ORDER_MARK)
    page = checked_members(text)
    if missing := {"items", "next_cursor"} - page.keys():
        raise Unreadable(f"it has no {min(missing)}")
    cursor = read_cursor(page["next_cursor"])
    if isinstance(cursor, CursorFault):
        raise Unreadable(cursor.message)
    raw = elements(page["items"])
    if len(raw) > MAX_ACCOUNTS:
        raise Unreadable(f"it has more than {MAX_ACCOUNTS} items")
    records = [_account(position, one) for position, one in enumerate(raw)]
    accounts = tuple(record for record in records if isinstance(record, Account))
    unknown = {f"items[].{name}" for account in accounts for name in account.model_extra or ()} | page.keys()
    return AccountPage(
        accounts,
        tuple(record for record in records if isinstance(record, RejectedRecord)),
        cursor,
        frozenset(unknown - {"items", "next_cursor"}),
        _received(text, page["items"], hide),
        tuple(raw),
    )


def _received(text: bytes, items: bytes, hide: Hide) -> bytes:
    """Return a page as it was received, but what is around its list of items as `hide` returns it."""
    before, _, after = text.partition(items)
    return hide(before) + items + hide(after)


def read_media_page(body: bytes, paths: PagePaths = DEFAULT_PATHS, hide: Hide = bytes) -> MediaPage:
    """Parse a page of media, whose shape is not published (API 4.2). `paths` says where its list and cursor are.

    What is around the list of items is received as `hide` returns it. Raises Unreadable if the page is not JSON, or its
    list of items is not found.
    """
    text = body.removeprefix(_BYTE_ORDER_MARK)
    items, found, _ = locate_items(text, paths)
    cursor, fault = (None, found) if isinstance(found, CursorFault) else (found, None)
    page = '{"items":' + _readable(items) + ',"next_cursor":' + to_json(cursor).decode() + "}"
    return MediaPage(count_elements(items), cursor, _received(text, items, hide), page, fault)


def _readable(items: bytes) -> str:
    """Return a list as text; an element that is not UTF-8 becomes a JSON text, which is no item."""
    try:
        return items.decode()
    except UnicodeDecodeError:
        return f"[{','.join(map(_element, elements(items)))}]"


def _element(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return to_json(raw.decode(errors="backslashreplace")).decode()


def _account(position: int, raw: bytes) -> Account | RejectedRecord:
    payload = raw.decode(errors="backslashreplace")
    try:
        value: Any = from_json(repair(raw).decode(errors="replace"), allow_inf_nan=False)
    except ValueError as error:
        return RejectedRecord(position, one_line(str(error)), payload)
    if payload.encode() != raw:
        account_id = value.get("id") if isinstance(value, dict) else None
        is_valid = isinstance(account_id, str) and re.fullmatch(UUID, account_id)
        return RejectedRecord(position, _NOT_UTF8, payload, account_id if is_valid else None)
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

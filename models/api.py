"""Parsing of API responses (API 2): bytes in, values out.

Parsing is strict where the contract specifies something and tolerant elsewhere: a malformed account or an unknown field
never causes the whole page to be rejected, and the shape of a media page, which is not published, is found out.

Bytes that are not UTF-8, and halves of characters (escapes of unpaired surrogates), are U+FFFD once a page is received.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from models.mapping import to_keys
from models.runs import one_line
from models.values import LOST, UNREADABLE

MAX_ACCOUNTS = 50
MAX_CURSOR = 1024
UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


class Unreadable(ValueError):  # noqa: N818 - named after the condition
    """A text is not JSON, or not a valid page. The message is one line and quotes nothing from the text."""


class Account(BaseModel):
    """One connected account (API 2). Fields that the contract does not define are kept in `model_extra`.

    An unknown `status` (API 3) is kept as a text of at most 80 characters.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    id: Annotated[str, Field(pattern=f"^{UUID}$")]
    ig_username: Annotated[str, Field(pattern=r"^[A-Za-z0-9._]+$", min_length=1, max_length=30)]
    public_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9]+$", min_length=12, max_length=16)]
    status: Annotated[str, AfterValidator(lambda text: one_line(text, 80))]


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record of an account page that is no account: its position, from 0, why, its JSON, and its id if it has one."""

    position: int
    reason: str
    payload: str
    account_id: str | None = None


@dataclass(frozen=True, slots=True)
class CursorFault:
    """Why it is uncertain whether more pages follow a page: an error code, and a message of one line.

    `may_end`: the list ends if no page of it had a cursor.
    """

    code: Literal["cursor_missing", "cursor_empty", "cursor_invalid"]
    message: str
    may_end: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the account list (API 4.1), with its accounts, or of the media list (API 4.2).

    `records` are as the API sent them. `unknown_fields` are names of other members of the page, and, after `items[].`,
    of accounts. With a `cursor_fault` there is no `next_cursor`, although the list may not end here.
    """

    records: Sequence[bytes]
    next_cursor: str | None
    unknown_fields: frozenset[str]
    cursor_fault: CursorFault | None = None
    accounts: Sequence[Account] = ()
    rejected: Sequence[RejectedRecord] = ()

    @property
    def body(self) -> bytes:
        """Return the page as it lands: its records, and the names of its other members, whose values may be secret."""
        names = sorted(name for name in self.unknown_fields if not name.startswith("items[]."))
        return _encode({"items": [*map(msgspec.Raw, self.records)], "next_cursor": None, **dict.fromkeys(names)})


# What a page without a cursor, or with an empty one, says about its list: that it ends, or nothing. By default, a page
# without a cursor ends its list only if it is the first one.
MissingCursor = Literal["ends", "ends_first_page", "fails"]
EmptyCursor = Literal["ends", "fails"]


@dataclass(frozen=True, slots=True)
class PagePaths:
    """How a media page is read: JSON Pointers to the list of items and to the cursor, and what ends a list.

    The pointers are tried in order before the automatic search.
    """

    items: tuple[str, ...] = ()
    next_cursor: tuple[str, ...] = ()
    missing_cursor: MissingCursor = "ends_first_page"
    empty_cursor: EmptyCursor = "fails"


DEFAULT_PATHS = PagePaths()

_OWN = frozenset({"items", "next_cursor"})


def read_account_page(body: bytes) -> Page:
    """Parse a page of accounts (API 2). Malformed accounts become rejected records.

    Raises Unreadable if the envelope itself is invalid.
    """
    _, page = _read_object(body)
    if missing := _OWN - page.keys():
        raise Unreadable(f"it has no {min(missing)}")
    cursor, fault = _read_cursor(page["next_cursor"])
    if fault is not None:
        raise Unreadable(fault.message)
    raws = _elements(page["items"])
    if len(raws) > MAX_ACCOUNTS:
        raise Unreadable(f"it has more than {MAX_ACCOUNTS} items")
    accounts, rejected = list[Account](), list[RejectedRecord]()
    for position, raw in enumerate(raws):
        try:
            accounts.append(Account.model_validate_json(raw))
        except ValidationError as error:
            rejected.append(_reject(position, raw, error))
    of_accounts = {f"items[].{name}" for account in accounts for name in account.model_extra or ()}
    return Page(raws, cursor, frozenset((page.keys() - _OWN) | of_accounts), None, accounts, rejected)


def _reject(position: int, raw: bytes, error: ValidationError) -> RejectedRecord:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    reason = one_line("; ".join(": ".join([*map(str, at["loc"]), at["msg"]]) for at in details))
    has_id = not {(), ("id",)} & {at["loc"] for at in details}
    return RejectedRecord(position, reason, raw.decode(), from_json(raw)["id"] if has_id else None)


def read_media_page(body: bytes, paths: PagePaths = DEFAULT_PATHS) -> Page:
    """Parse a page of media, whose shape is not published (API 4.2).

    The list is the first found of: the paths of `paths`, `items`, the only top-level list of objects, and, if there is
    a cursor, the only top-level list if it is empty. The cursor is the first found of: the paths of `paths`,
    `next_cursor`, the only `next_cursor` in an object at the top level.

    Raises Unreadable if the page is not JSON, or its list of items is not found.
    """
    text, page = _read_object(body)
    # Other objects may have duplicate keys.
    inner = [_members(raw) for raw in page.values() if raw.startswith(b"{") and b'"next_cursor"' in raw]
    nested = [found["next_cursor"] for found in inner if "next_cursor" in found]
    raw = _at(page, (*paths.next_cursor, "/next_cursor")) or (nested[0] if len(nested) == 1 else None)
    # Without a cursor, an empty list may be anything, such as a list of errors.
    items = _at(page, (*paths.items, "/items")) or _find_list(page, may_be_empty=raw is not None)
    if items is None:
        raise Unreadable("no list of items found")
    cursor, fault = None, None
    if raw is not None:
        cursor, fault = _read_cursor(b"null" if raw == b'""' and paths.empty_cursor == "ends" else raw)
    elif nested:
        fault = CursorFault("cursor_invalid", "several objects of the page have a next_cursor")
    else:
        fault = _without_cursor(text.replace(items, b"[]"), paths)
    return Page(_elements(items), cursor, frozenset(page.keys() - _OWN), fault)


def _at(page: Mapping[str, bytes], paths: Sequence[str]) -> bytes | None:
    for path in paths:
        found = page
        *above, last = to_keys(path)
        for key in above:
            inner = found.get(key, b"")
            found = _members(inner) if inner.startswith(b"{") else {}
        if last in found:
            return found[last]
    return None


def _find_list(page: Mapping[str, bytes], *, may_be_empty: bool) -> bytes | None:
    lists = [(raw, _elements(raw)) for raw in page.values() if raw.startswith(b"[")]
    full = [raw for raw, inner in lists if inner and all(one.startswith(b"{") for one in inner)]
    if len(full) == 1:
        return full[0]
    return lists[0][0] if may_be_empty and len(lists) == 1 and not lists[0][1] else None


def _read_cursor(raw: bytes) -> tuple[str | None, CursorFault | None]:
    """Return the value of a page's `next_cursor`, or why it is no cursor."""
    # Not decoded: a number may be out of any range.
    if not raw.startswith(b'"'):
        return None, None if raw == b"null" else CursorFault("cursor_invalid", "next_cursor is neither text nor null")
    cursor: str = from_json(raw)
    if not cursor:
        return None, CursorFault("cursor_empty", "next_cursor is an empty text")
    if LOST in cursor:
        return None, CursorFault("cursor_invalid", "next_cursor is not UTF-8")
    if len(cursor) > MAX_CURSOR:
        return None, CursorFault("cursor_invalid", f"next_cursor has more than {MAX_CURSOR:,} characters")
    return cursor, None


# Another field that may lead to the next page, with a value that is not empty, or a link to it.
_LEADS_ON = re.compile(
    rb'(?<!\\)"([^"\\]*(?:next|cursor|after|more|token|continu)[^"\\]*)"\s*+:\s*+(?!null|false|""|\{\s*\}|\[\s*\])'
    rb'|"rel"\s*:\s*"(next)"',
    re.IGNORECASE,
)


def _without_cursor(around: bytes, paths: PagePaths) -> CursorFault | None:
    """Return what a page without a cursor means, by what is around its items; None if its list ends with it."""
    if paths.missing_cursor == "ends":
        return None
    if leading := _LEADS_ON.search(around):
        name = (leading[1] or leading[2]).decode()
        return CursorFault("cursor_missing", f"no next_cursor was found, but {one_line(name, 80)}")
    may_end = paths.missing_cursor == "ends_first_page"
    return CursorFault("cursor_missing", "the page has no next_cursor", may_end=may_end)


_parse_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_parse_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
# Every escape is matched, so that the second backslash of `\\` is never taken for the start of an escape.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)


def _read_object(body: bytes) -> tuple[bytes, Mapping[str, bytes]]:
    """Return the text of a response's body, repaired as above, and the members of its object. Raises Unreadable."""
    text = body.removeprefix(b"\xef\xbb\xbf")
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode(errors="replace").encode()
    try:
        return text, _members(text)
    except Unreadable:
        # Only now, because other escapes may be many.
        text = _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], text)
    return text, _members(text)


def _members(text: bytes) -> Mapping[str, bytes]:
    """Return the values of an object as they are written, by their keys. Raises Unreadable, also for duplicate keys.

    JSON does not define which of two duplicate keys applies, so that a page may have more items than are found.
    """
    try:
        found = _parse_object(text)
    except UNREADABLE:
        raise Unreadable("it is not a JSON object") from None
    # The parser takes the last of duplicate keys: then a colon is missing.
    if (again := _encode(found)) != text and again.count(b":") != text.count(b":"):
        raise Unreadable("it contains a duplicate key")
    return {name: bytes(raw) for name, raw in found.items()}


def _elements(text: bytes) -> Sequence[bytes]:
    """Return the elements of a list as they are written. Raises Unreadable."""
    try:
        return [bytes(raw) for raw in _parse_list(text)]
    except UNREADABLE:
        raise Unreadable("its items are no list") from None


class ErrorEnvelope(BaseModel):
    """An error response of the API (API 2). Its correlation id and details may be anything."""

    code: Annotated[str, Field(min_length=1)]
    message: str
    correlation_id: Any = None
    details: Any = None

    @property
    def issues(self) -> str:
        """Return the validation issues of the details, such as `too_big at 0.1`; empty if these are invalid."""
        with suppress(KeyError, TypeError):
            return ", ".join(f"{one['code']} at {'.'.join(map(str, one['path']))}" for one in self.details["issues"])
        return ""


def read_error(body: bytes) -> ErrorEnvelope | None:
    """Parse the error envelope (API 2). Return None if the body is not one, such as a proxy's HTML page."""
    with suppress(Unreadable, ValidationError):
        return ErrorEnvelope.model_validate_json(_read_object(body)[1].get("error", b""))
    return None

"""Parsing of API responses (API 2): bytes in, values out.

Parsing is strict where the contract specifies something and tolerant elsewhere: a malformed account or an unknown field
never causes the whole page to be rejected.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    with_config,
)
from pydantic_core import from_json, to_json
from typing_extensions import TypedDict

from models.media_page import DEFAULT_PATHS, MAX_CURSOR, CursorFault, NotFound, PagePaths, located, next_cursor
from models.page_commit import RejectedRecord
from models.page_items import id_in
from models.partial_json import Unreadable, certain_id, elements, exact_text, members, repaired
from models.schema.mapping_built_in import BUILT_IN
from models.schema.pointer import to_keys
from models.text import one_line

MAX_ACCOUNTS = 50

# A page that is not JSON is read element by element, if it has no more than these.
_MOST_ELEMENTS = 10_000
_NOT_JSON = "The record is not JSON."
_OWN_KEYS = (b'"items"', b'"next_cursor"')
# A letter of one of these keys as an escape. JSON allows it, but no serializer writes it.
_ESCAPED_KEY = re.compile(rb"\\u00(?:5[fF]|6[359dDeEfF]|7[2-58])")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"

# Every escape is matched, so that the second backslash of `\\` is never taken for the start of an escape.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)


class MalformedPage(ValueError):  # noqa: N818 - named after the condition, like `Deferred`
    """A response body that is not a valid page. The message is one line and quotes nothing from the body."""


class Account(BaseModel):
    """One connected account (API 2). Fields that the contract does not define are kept in `model_extra`."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    id: Annotated[str, Field(pattern=_UUID)]
    ig_username: Annotated[str, Field(pattern=r"^[A-Za-z0-9._]+$", min_length=1, max_length=30)]
    public_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9]+$", min_length=12, max_length=16)]
    status: Literal["active", "token_expired"]


@dataclass(frozen=True, slots=True)
class AccountPage:
    """One page of the account list (API 4.1). `body` is its text, with null for each record that is not JSON."""

    accounts: tuple[Account, ...]
    rejected: tuple[RejectedRecord, ...]
    next_cursor: str | None
    items: int
    unknown_fields: frozenset[str]
    body: str


@dataclass(frozen=True, slots=True)
class MediaPage:
    """One page of the media list (API 4.2). Its items are not decoded; `items` is their number.

    `body` is its text, repaired, with null for each of the `rejected` items. `ids` are the items' ids, read from the
    top-level keys of the built-in mapping; items without an id have no entry. With a `cursor_fault` there is no
    `next_cursor`, although the list may not end with this page.
    """

    items: int
    next_cursor: str | None
    unknown_fields: frozenset[str]
    body: str
    ids: tuple[str, ...] = field(default=(), compare=False, repr=False)
    rejected: tuple[RejectedRecord, ...] = ()
    cursor_fault: CursorFault | None = None


@dataclass(frozen=True, slots=True)
class Issue:
    """One validation issue of an error's details (API 2)."""

    code: str
    path: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ErrorEnvelope:
    """An error response of the API (API 2). `issues` is empty if the response has no readable ones."""

    code: str
    message: str
    correlation_id: str | None
    issues: tuple[Issue, ...]


def repair(body: bytes) -> bytes:
    r"""Replace unpaired surrogate escapes (such as the `\ud83d` of a truncated emoji) by `\ufffd`."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], body)


def read_account_page(body: bytes) -> AccountPage:
    """Parse a page of accounts (API 2). Malformed accounts become rejected records, also those that are not JSON.

    Raises MalformedPage if the envelope itself is invalid.
    """
    others: frozenset[str] = frozenset()
    not_json: Mapping[int, RejectedRecord] = {}
    try:
        page, text = _read_page(_AccountEnvelope, body)
    except MalformedPage as error:
        try:
            found = members(body.removeprefix(_BYTE_ORDER_MARK))
            items, cursor = found["items"], found["next_cursor"]
        except (Unreadable, KeyError):
            raise error from None
        items, not_json = _readable(items, lambda one: len(_read_page(_AccountEnvelope, one)[0].items))
        not_json = {position: _with_account_id(record) for position, record in not_json.items()}
        page, text = _read_page(_AccountEnvelope, _page_of(items, cursor))
        others = frozenset(found) - {"items", "next_cursor"}
    records = [not_json.get(position, record) for position, record in enumerate(page.items)]
    accounts = tuple(record for record in records if isinstance(record, Account))
    rejected = tuple(
        replace(record, position=position)
        for position, record in enumerate(records)
        if isinstance(record, RejectedRecord)
    )
    fields = {f"items[].{name}" for account in accounts for name in account.model_extra or ()}
    unknown = fields.union(page.model_extra or (), others)
    return AccountPage(accounts, rejected, page.next_cursor, len(page.items), frozenset(unknown), text)


def read_media_page(body: bytes, paths: PagePaths = DEFAULT_PATHS) -> MediaPage:
    """Parse a page of media, whose shape is not published (API 4.2). `paths` says where its list and cursor are.

    If they are not at `items` and `next_cursor`, or not JSON, the returned `body` is rewritten to have them there.
    Items that are not JSON are repaired if the result is certain, and `rejected` otherwise. Raises MalformedPage if the
    list of items is not found, or does not end.
    """
    why = ""
    if not (paths.items or paths.next_cursor):
        try:
            return _media_page(body, frozenset())
        except MalformedPage as error:
            why = str(error)
    try:
        found = located(body.removeprefix(_BYTE_ORDER_MARK), paths)
    except NotFound as error:
        # For invalid JSON, the parser's message is more specific.
        raise MalformedPage(str(error) if error.__cause__ is None else why or str(error)) from None
    cursor = next_cursor(found, paths)
    fault = cursor if isinstance(cursor, CursorFault) else None
    in_body = found.cursor if found.cursor is not None and isinstance(cursor, str) else b"null"
    rejected: Mapping[int, RejectedRecord] = {}
    try:
        page = _media_page(_page_of(found.items, in_body), found.others)
    except MalformedPage:
        items, rejected = _readable(found.items, lambda one: _media_page(one, frozenset()).items)
        page = _media_page(_page_of(items, in_body), found.others)
    return replace(page, rejected=tuple(rejected.values()), cursor_fault=fault)


def _page_of(items: bytes, cursor: bytes) -> bytes:
    return b'{"items":' + items + b',"next_cursor":' + cursor + b"}"


def _readable(items: bytes, count: Callable[[bytes], int]) -> tuple[bytes, dict[int, RejectedRecord]]:
    """Return a list with its elements repaired, null for those that cannot be, and these as records by position.

    `count` reads a page and returns its number of items, or raises MalformedPage. Raises MalformedPage if the elements
    cannot be told apart.
    """
    try:
        raw = elements(items)
    except Unreadable as error:
        message = "neither the page nor its list of items is JSON"
        raise MalformedPage(message) from error
    if len(raw) > _MOST_ELEMENTS:
        message = f"it is not JSON, and has more than {_MOST_ELEMENTS:,} items"
        raise MalformedPage(message)
    found = [_readable_element(one, count) for one in raw]
    rejected = {
        position: RejectedRecord(position, _NOT_JSON, exact_text(raw[position]))
        for position, one in enumerate(found)
        if one is None
    }
    return b"[" + b",".join(b"null" if one is None else one for one in found) + b"]", rejected


def _readable_element(raw: bytes, count: Callable[[bytes], int]) -> bytes | None:
    for text in (raw, repaired(raw)):
        try:
            if count(_page_of(b"[" + text + b"]", b"null")) == 1:
                return text
        except MalformedPage:
            continue
    return None


def _plain_media_page(body: bytes) -> MediaPage | None:
    """Parse a page of objects with string ids and a cursor, without building the objects; None for any other body.

    The result is that of `_read_page`, in a third of the time, except that integers of any length are accepted.
    """
    try:
        page, text = _plain_page.decode(body), body.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    cursor = page.next_cursor
    if (cursor is not None and not 0 < len(cursor) <= MAX_CURSOR) or _may_repeat_a_key(body):
        return None
    ids = tuple([item.id for item in page.items])
    if not all(ids) or (ids and set(map(type, ids)) != {str}):
        return None
    return MediaPage(len(ids), cursor, frozenset(), text, ids)


def _media_page(body: bytes, others: frozenset[str]) -> MediaPage:
    if not others and (plain := _plain_media_page(body)) is not None:
        return plain
    page, text = _read_page(_MediaEnvelope, body)
    unknown, ids = others.union(page.model_extra or ()), _ids(page.items)
    if any(_REPLACEMENT in one for one in ids) and repair(body) != body:
        # Repaired, different ids may be equal.
        message = "an id contains half of a surrogate pair"
        raise MalformedPage(message)
    return MediaPage(len(page.items), page.next_cursor, unknown, text, ids)


def read_error(body: bytes) -> ErrorEnvelope | None:
    """Parse the error envelope (API 2). Return None if the body is not one, such as a proxy's HTML page."""
    try:
        error = _parse(_Envelope, body)[0].error
    except ValidationError:
        return None
    issues = error.details.issues if error.details else ()
    return ErrorEnvelope(
        error.code,
        error.message,
        error.correlation_id,
        tuple(Issue(issue.code, tuple(issue.path)) for issue in issues),
    )


def _account_or_rejected(value: object) -> Account | RejectedRecord:
    try:
        return Account.model_validate(value)
    except ValidationError as error:
        # A number too large for a float is valid JSON, but an infinity here: `strings` keeps the output valid.
        payload = to_json(value, inf_nan_mode="strings").decode()
        wrong = [found["loc"] for found in error.errors(include_url=False, include_context=False, include_input=False)]
        if not isinstance(value, dict) or ("id",) in wrong:
            return RejectedRecord(None, _reason(error), payload)
        if wrong != [("status",)]:
            return RejectedRecord(None, _reason(error), payload, value["id"])
        status = value.get("status")
        text = status if isinstance(status, str) else to_json(status, inf_nan_mode="strings").decode()
        return RejectedRecord(None, _reason(error), payload, value["id"], one_line(text, 80))


def _with_account_id(record: RejectedRecord) -> RejectedRecord:
    account_id = certain_id(record.payload.encode())
    return replace(record, account_id=account_id) if account_id and re.fullmatch(_UUID, account_id) else record


def _none_if_unreadable(value: object, read: ValidatorFunctionWrapHandler) -> object:
    try:
        return read(value)
    except ValidationError:
        return None


class _PageEnvelope(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    next_cursor: Annotated[str, Field(min_length=1, max_length=MAX_CURSOR)] | None


class _AccountEnvelope(_PageEnvelope):
    items: Annotated[list[Annotated[Any, AfterValidator(_account_or_rejected)]], Field(max_length=MAX_ACCOUNTS)]


_ID_KEYS = tuple(map(to_keys, BUILT_IN.media_id))

# Of an item only the id is read, in half of the time needed to build all of it. Without its own configuration, the
# page's `extra` would apply to its items as well.
_Opaque = TypedDict("_Opaque", {key: Any for (key,) in _ID_KEYS}, total=False)  # type: ignore[misc]
with_config(ConfigDict(extra="ignore"))(_Opaque)


class _PlainItem(msgspec.Struct):
    id: Any = None


class _PlainPage(msgspec.Struct, forbid_unknown_fields=True):
    items: list[_PlainItem]
    next_cursor: str | None


_plain_page = msgspec.json.Decoder(_PlainPage)


class _MediaEnvelope(_PageEnvelope):
    items: list[Annotated[_Opaque | Any, Field(union_mode="left_to_right")]]


def _ids(items: Sequence[Any]) -> tuple[str, ...]:
    try:
        ids = tuple([item["id"] for item in items])
    except (KeyError, TypeError):
        ids = ()
    if ids and all(ids) and set(map(type, ids)) == {str}:
        # True for nearly every page, and three times as fast as the search below.
        return ids
    return tuple(found for item in items if (found := id_in(item, _ID_KEYS)))


class _Issue(BaseModel):
    code: Annotated[str, Field(min_length=1, max_length=64)]
    path: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=16)]


class _Details(BaseModel):
    issues: Annotated[list[_Issue], Field(max_length=32)]


class _Error(BaseModel):
    code: Annotated[str, Field(min_length=1)]
    message: str
    correlation_id: Annotated[str | None, WrapValidator(_none_if_unreadable)] = None
    details: Annotated[_Details | None, WrapValidator(_none_if_unreadable)] = None


class _Envelope(BaseModel):
    error: _Error


_Model = TypeVar("_Model", bound=BaseModel)
_Page = TypeVar("_Page", bound=_PageEnvelope)


def _parse(model: type[_Model], body: bytes) -> tuple[_Model, bytes]:
    body = body.removeprefix(_BYTE_ORDER_MARK)
    try:
        return model.model_validate_json(body), body
    except ValidationError:
        # Repaired only after a failure, so that pages with valid emoji cost nothing extra.
        repaired = repair(body)
        if repaired == body:
            raise
        return model.model_validate_json(repaired), repaired


def _names(pairs: list[tuple[str, object]]) -> list[str]:
    return [name for name, _ in pairs]


def _repeats_a_key(text: bytes) -> bool:
    # JSON does not define which of two duplicate keys applies, and parsers differ.
    names = json.loads(text, object_pairs_hook=_names, parse_int=str, parse_float=str, parse_constant=str)
    return isinstance(names, list) and len(names) != len(set(names))


def _may_repeat_a_key(text: bytes) -> bool:
    # Substring searches come first: they exclude nearly every page in a tenth of the pattern's time. On bytes, `rfind`
    # takes half as long as `find`.
    if any(text.rfind(key, 0, text.rfind(key)) >= 0 for key in _OWN_KEYS):
        return True
    return b"\\" in text and b"\\u00" in text and _ESCAPED_KEY.search(text) is not None


def _read_page(model: type[_Page], body: bytes) -> tuple[_Page, str]:
    try:
        page, text = _parse(model, body)
        if text.rfind(b"NaN") >= 0 or text.rfind(b"Infinity") >= 0:
            # Pydantic accepts them as numbers, although they are not JSON. Inside a string they are allowed.
            from_json(text, allow_inf_nan=False)
        # Of duplicate keys Pydantic reads the last and DuckDB the first: the items counted would not be those merged.
        if _may_repeat_a_key(text) and _repeats_a_key(text):
            message = "the page contains a duplicate key"
            raise MalformedPage(message)
    except ValidationError as error:
        raise MalformedPage(_reason(error)) from None
    except ValueError as error:
        message = one_line(f"Invalid JSON: {error}")
        raise MalformedPage(message) from None
    if page.next_cursor is not None and _REPLACEMENT in page.next_cursor and repair(body) != body:
        # API 8 rule 2: a cursor is sent back unchanged, which is impossible for a repaired one.
        message = "next_cursor: contains half of a surrogate pair"
        raise MalformedPage(message)
    return page, text.decode()


def _reason(error: ValidationError) -> str:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return one_line("; ".join(": ".join([*map(str, at["loc"]), at["msg"]]) for at in details))

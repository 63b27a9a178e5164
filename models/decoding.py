"""Decodes pages and media records, which are JSON from outside, or says why they cannot be. No IO.

Bytes that are not UTF-8, and halves of characters (escapes of unpaired surrogates), are U+FFFD once a page is received.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

LOST = "\N{REPLACEMENT CHARACTER}"

# Records that are nested deeper are rejected: values are read recursively.
_DEEPEST = 200

REASONS = {
    "no_id": "The item has no id that gramhouse knows.",
    "inexact_id": "The id of the item is no text and no whole number, or has lost a character.",
    "not_an_object": "The item is not a JSON object.",
    "not_json": "The item is not JSON.",
    "too_deep": f"The item is nested deeper than {_DEEPEST} levels.",
    "number_out_of_range": "The item contains a number that is out of the range of a double.",
}


class Unreadable(ValueError):  # noqa: N818 - named after the condition
    """A text is not JSON, or not a valid page. The message is one line and quotes nothing from the text."""


class RejectedItem(ValueError):  # noqa: N818 - named after the condition
    """A record that cannot become an item; `code` is a key of REASONS, and the message its text."""

    def __init__(self, code: str) -> None:
        """Create it with the text of its code."""
        super().__init__(REASONS[code])
        self.code = code


_parse = msgspec.json.Decoder().decode
_parse_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_parse_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError)

# Every escape is matched, so that the second backslash of `\\` is never taken for the start of an escape.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)


def read_object(body: bytes) -> tuple[bytes, Mapping[str, bytes]]:
    """Return the text of a response's body, repaired as above, and the members of its object. Raises Unreadable."""
    text = body.removeprefix(b"\xef\xbb\xbf")
    try:
        text.decode()
        return text, members(text)
    except (UnicodeDecodeError, Unreadable):
        # Only now, because other escapes may be many.
        text = _without_halves(text.decode(errors="replace").encode())
    return text, members(text)


def members(text: bytes) -> Mapping[str, bytes]:
    """Return the values of an object as they are written, by their keys. Raises Unreadable, also for duplicate keys.

    JSON does not define which of two duplicate keys applies, so that a page may have more items than are found.
    """
    try:
        found = _parse_object(text)
    except _ERRORS:
        raise Unreadable("it is not a JSON object") from None
    # The parser takes the last of duplicate keys: then a colon is missing.
    if (again := _encode(found)) != text and again.count(b":") != text.count(b":"):
        raise Unreadable("it contains a duplicate key")
    return {name: bytes(raw) for name, raw in found.items()}


def elements(text: bytes) -> Sequence[bytes]:
    """Return the elements of a list as they are written. Raises Unreadable."""
    try:
        return [bytes(raw) for raw in _parse_list(text)]
    except _ERRORS:
        raise Unreadable("its items are no list") from None


def _without_halves(text: bytes) -> bytes:
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], text)


def decode_record(raw: bytes, parse: Callable[[bytes], Any] = _parse) -> dict[str, Any]:
    """Return the members of a record; of duplicate keys the last one counts. Raises RejectedItem.

    `parse` may skip members.
    """
    try:
        value = parse(raw)
    except RecursionError:
        raise RejectedItem("too_deep") from None
    except msgspec.ValidationError:
        raise RejectedItem("number_out_of_range") from None
    except (msgspec.DecodeError, UnicodeError):
        raise RejectedItem("not_json") from None
    if not isinstance(value, dict):
        raise RejectedItem("not_an_object")
    # Python 3.13 parses any depth.
    if raw.count(b"[") + raw.count(b"{") > _DEEPEST:
        _check_depth(value)
    return value


def _check_depth(record: dict[str, Any]) -> None:
    level: list[Any] = [record]
    for _ in range(_DEEPEST):
        inner = chain.from_iterable(each.values() if isinstance(each, dict) else each for each in level)
        level = [each for each in inner if isinstance(each, (dict, list))]
        if not level:
            return
    raise RejectedItem("too_deep")

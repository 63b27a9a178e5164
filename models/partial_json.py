"""Splits objects and lists into their values, and reads what is certain of a text that is not JSON. No IO.

A page may have an invalid byte in one item, for example.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

import msgspec

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = re.compile(_STRING + rb'|[][{},"]|[^][{},"]+', re.DOTALL)
_MEMBER = re.compile(rb"(" + _STRING + rb")[ \t\r\n]*:(.*)", re.DOTALL)
# What precedes the value of a member: its key, and punctuation.
_KEY = re.compile(rb"[{, \t\r\n]*" + _STRING + rb"[ \t\r\n]*:[ \t\r\n]*", re.DOTALL)
# More values than these are not read one by one.
_MOST_PARTS = 10_000
_SPACE = b" \t\r\n"
_CLOSING = {b"{": b"}", b"[": b"]"}
_DUPLICATE = "it contains a duplicate key"
_NO_OBJECT = "it is not a JSON object"
_NO_LIST = "neither the page nor its list of items is JSON"

# A string, so that its contents are not searched, or a comma between the end of a value and a closing bracket.
_REPAIRABLE = re.compile(_STRING + rb"|(?<=[^][{,: \t\r\n]|[]}])[ \t\r\n]*,(?=[ \t\r\n]*[]}])", re.DOTALL)
_ESCAPE_OR_CONTROL = re.compile(rb"\\.|[\x00-\x1f]", re.DOTALL)


_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw])


class Unreadable(ValueError):  # noqa: N818 - named after the condition
    """A text does not show where its values begin and end, or which of them is meant, or it is not a valid page.

    The message is one line and quotes nothing from the text.
    """


def elements(text: bytes) -> Sequence[bytes]:
    """Return the elements of a list, each JSON or not. Raises Unreadable."""
    with suppress(msgspec.DecodeError, RecursionError):
        return list(map(bytes, _list.decode(text)))
    return _parts(text, b"[")


def members(text: bytes) -> Mapping[str, bytes]:
    """Return the values of an object, each JSON or not, by their keys; of JSON, the last one of duplicate keys counts.

    Raises Unreadable.
    """
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {name: bytes(raw) for name, raw in _object.decode(text).items()}
    return distinct_members(text)


def distinct_members(text: bytes) -> Mapping[str, bytes]:
    """Return the values of an object, each JSON or not, by their keys. Raises Unreadable, also for duplicate keys."""
    found: dict[str, bytes] = {}
    for part in _parts(text, b"{"):
        member = _MEMBER.fullmatch(part)
        name = "" if member is None else _text(member[1])
        if member is None:
            raise Unreadable(_NO_OBJECT)
        if name in found:
            raise Unreadable(_DUPLICATE)
        found[name] = member[2].strip(_SPACE)
    return found


def checked_members(text: bytes) -> Mapping[str, bytes]:
    """Return the same as `distinct_members`, of JSON in a small part of the time."""
    found, end = members(text), 0
    for value in found.values():
        key = _KEY.match(text, end)
        # Of duplicate keys, one value is not found, or its key is left at the end.
        if key is None or not text.startswith(value, key.end()):
            raise Unreadable(_DUPLICATE)
        end = key.end() + len(value)
    if text[end:].strip(b"{}, \t\r\n"):
        raise Unreadable(_DUPLICATE)
    return found


def certain_id(text: bytes) -> str | None:
    """Return the value at the key `id` of an object that need not be JSON; None if it is not certainly a text."""
    try:
        value = distinct_members(text)["id"]
        # Anything else may be nested too deep.
        return _storable(json.loads(value)) if value.startswith(b'"') else None
    except (ValueError, KeyError):
        return None


def _text(string: bytes) -> str:
    try:
        return _storable(json.loads(string))
    except ValueError:
        return exact_text(string)


def _storable(text: str) -> str:
    """Return the text. Raises ValueError if it has an unpaired surrogate, which UTF-8 cannot express."""
    text.encode()
    return text


def _parts(text: bytes, opening: bytes) -> list[bytes]:
    """Split a list or an object at its own commas; one before the closing bracket is ignored."""
    text = text.strip(_SPACE)
    unreadable = Unreadable(_NO_LIST if opening == b"[" else _NO_OBJECT)
    closing = [_CLOSING[opening]]
    cuts = [0]
    for token in _TOKEN.finditer(text, len(opening)):
        mark = token[0]
        if not closing or mark == b'"':
            # Text after the end, or a string without one.
            raise unreadable
        if mark in _CLOSING:
            closing.append(_CLOSING[mark])
        elif mark in _CLOSING.values() and closing.pop() != mark:
            raise unreadable
        elif not closing or (mark == b"," and len(closing) == 1):
            cuts.append(token.start())
    if closing or not text.startswith(opening) or len(cuts) > _MOST_PARTS:
        raise unreadable
    *parts, last = (text[begin + 1 : until].strip(_SPACE) for begin, until in pairwise(cuts))
    return [*parts, last] if last else parts


def repaired(text: bytes) -> bytes:
    """Return the text with the repairs whose result is certain.

    Control characters within strings are escaped, and commas between the end of a value and a closing bracket are left
    out. The rest of the text may be invalid.
    """
    return _REPAIRABLE.sub(lambda found: _repaired_string(found[0]) if found[0].startswith(b'"') else b"", text)


def _repaired_string(string: bytes) -> bytes:
    # After a backslash, a control character has no certain meaning.
    return _ESCAPE_OR_CONTROL.sub(
        lambda found: found[0] if found[0].startswith(b"\\") else b"\\u%04x" % found[0][0], string
    )


def exact_text(text: bytes) -> str:
    r"""Return bytes that are not JSON as text from which they can be restored.

    A byte that is not UTF-8, NUL, and a backslash before an x, which JSON does not have, are written as \x and two
    hexadecimal digits.
    """
    return text.replace(b"\\x", b"\\x5cx").replace(b"\0", b"\\x00").decode(errors="backslashreplace")

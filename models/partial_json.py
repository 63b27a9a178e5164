"""Splits objects and lists into their values, which keep their bytes, whether or not these can be decoded. No IO."""

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
# What precedes the value of a member: its key, and punctuation.
_KEY = re.compile(rb"[{, \t\r\n]*" + _STRING + rb"[ \t\r\n]*:[ \t\r\n]*", re.DOTALL)

# Every escape is matched, so that the second backslash of `\\` is never taken for the start of an escape.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)

_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw])
_Parts = TypeVar("_Parts", dict[str, msgspec.Raw], list[msgspec.Raw])


class Unreadable(ValueError):  # noqa: N818 - named after the condition
    """A text is not JSON, or not a valid page.

    The message is one line and quotes nothing from the text.
    """


def elements(text: bytes) -> Sequence[bytes]:
    """Return the elements of a list as they are written, also those that are not UTF-8. Raises Unreadable."""
    raws, readable = _split(_list, text)
    found = list(map(bytes, raws))
    if readable is text:
        return found
    own, end = [], 0
    for raw in found:
        begin = readable.index(raw, end)
        end = begin + len(raw)
        own.append(text[begin:end])
    return own


def count_elements(text: bytes) -> int:
    """Return the number of elements of a list. Raises Unreadable."""
    return len(_split(_list, text)[0])


def members(text: bytes) -> Mapping[str, bytes]:
    """Return the values of an object as repaired JSON texts by their keys; the last one of duplicate keys counts.

    Raises Unreadable.
    """
    return {name: bytes(raw) for name, raw in _split(_object, text)[0].items()}


def checked_members(text: bytes) -> Mapping[str, bytes]:
    """Return the values of an object as they are written, by their keys. Raises Unreadable, also for duplicate keys."""
    raws, readable = _split(_object, text)
    found, end = {}, 0
    for name, raw in raws.items():
        key = _KEY.match(readable, end)
        # Of duplicate keys, one value is not found, or its key is left at the end.
        if key is None or not readable.startswith(bytes(raw), key.end()):
            raise Unreadable("it contains a duplicate key")
        end = key.end() + len(raw)
        found[name] = text[key.end() : end]
    if readable[end:].strip(b"{}, \t\r\n"):
        raise Unreadable("it contains a duplicate key")
    return found


def _split(decoder: msgspec.json.Decoder[_Parts], text: bytes) -> tuple[_Parts, bytes]:
    """Return the parts of a text, and the text in which they were found: `text` itself, or as `repair` returns it."""
    try:
        return decoder.decode(text), text
    except _ERRORS:
        repaired = repair(text)
    try:
        return decoder.decode(repaired), repaired
    except _ERRORS:
        what = "it is not a JSON object" if decoder is _object else "neither the page nor its list of items is JSON"
        raise Unreadable(what) from None


def repair(body: bytes) -> bytes:
    r"""Replace unpaired surrogate escapes (such as the `\ud83d` of a truncated emoji) by U+FFFD, which is as long."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], body)


def exact_text(text: bytes) -> str:
    r"""Return bytes that are not JSON as text from which they can be restored.

    A byte that is not UTF-8, NUL, and a backslash before an x, which JSON does not have, are written as \x and two
    hexadecimal digits.
    """
    return text.replace(b"\\x", b"\\x5cx").replace(b"\0", b"\\x00").decode(errors="backslashreplace")

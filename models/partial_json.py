"""Splits objects and lists into their values without decoding these, and replaces bytes that are not UTF-8. No IO."""

import re
from collections.abc import Mapping, Sequence

import msgspec

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
# What precedes the value of a member: its key, and punctuation.
_KEY = re.compile(rb"[{, \t\r\n]*" + _STRING + rb"[ \t\r\n]*:[ \t\r\n]*", re.DOTALL)

# A byte that is not UTF-8, 0x80 and above, as Python decodes it, and in its place a character that no text has.
_MARKS = {0xDC00 + byte: 0x10FF00 + byte for byte in range(0x80, 0x100)}
_UNMARKED = {mark: byte for byte, mark in _MARKS.items()}
_MARK = re.compile("[\U0010ff80-\U0010ffff]")
_MARK_BYTES = "\U0010ffff".encode()[:2]

# U+FFFD for half a surrogate pair, spelled as no program does, so that a cursor that was changed by it is recognized.
REPLACED = rb"\uFFfd"

# Every escape is matched, so that the second backslash of `\\` is never taken for the start of an escape.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)

_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw])


class Unreadable(ValueError):  # noqa: N818 - named after the condition
    """A text is not JSON, or not a valid page.

    The message is one line and quotes nothing from the text.
    """


def elements(text: bytes) -> Sequence[bytes]:
    """Return the elements of a list as JSON texts. Raises Unreadable."""
    return list(map(bytes, _split(text)))


def count_elements(text: bytes) -> int:
    """Return the number of elements of a list. Raises Unreadable."""
    return len(_split(text))


def _split(text: bytes) -> Sequence[msgspec.Raw]:
    try:
        return _list.decode(text)
    except _ERRORS:
        raise Unreadable("neither the page nor its list of items is JSON") from None


def members(text: bytes) -> Mapping[str, bytes]:
    """Return the values of an object as JSON texts by their keys; the last one of duplicate keys counts.

    Raises Unreadable.
    """
    try:
        return {name: bytes(raw) for name, raw in _object.decode(text).items()}
    except _ERRORS:
        raise Unreadable("it is not a JSON object") from None


def checked_members(text: bytes) -> Mapping[str, bytes]:
    """Return the values of an object as JSON texts by their keys. Raises Unreadable, also for duplicate keys."""
    found, end = members(text), 0
    for value in found.values():
        key = _KEY.match(text, end)
        # Of duplicate keys, one value is not found, or its key is left at the end.
        if key is None or not text.startswith(value, key.end()):
            raise Unreadable("it contains a duplicate key")
        end = key.end() + len(value)
    if text[end:].strip(b"{}, \t\r\n"):
        raise Unreadable("it contains a duplicate key")
    return found


def mark_bytes(text: bytes) -> bytes:
    """Return a text in which marks stand for bytes that are not UTF-8; a text without any is returned as it is."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return text.decode(errors="surrogateescape").translate(_MARKS).encode()
    return text


def unmark_bytes(text: bytes) -> bytes:
    """Return a text with bytes in place of their marks."""
    if not has_marks(text):
        return text
    return text.decode().translate(_UNMARKED).encode(errors="surrogateescape")


def has_marks(text: bytes) -> bool:
    """Return whether a text has marks of `mark_bytes`."""
    return _MARK_BYTES in text and _MARK.search(text.decode()) is not None


def repair(body: bytes) -> bytes:
    r"""Replace unpaired surrogate escapes (such as the `\ud83d` of a truncated emoji) by U+FFFD, which is as long."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    return _ESCAPE.sub(lambda escape: REPLACED if escape[1] else escape[0], body)


def show_marks(text: bytes) -> str:
    r"""Return a text in which marks of `mark_bytes` are shown as \x and two hexadecimal digits."""
    return _MARK.sub(lambda mark: f"\\x{ord(mark[0]) - 0x10FF00:02x}", text.decode())


def exact_text(text: bytes) -> str:
    r"""Return bytes that are not JSON as text from which they can be restored.

    A byte that is not UTF-8, NUL, and a backslash before an x, which JSON does not have, are written as \x and two
    hexadecimal digits.
    """
    return text.replace(b"\\x", b"\\x5cx").replace(b"\0", b"\\x00").decode(errors="backslashreplace")

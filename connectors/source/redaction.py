"""Replaces the API key by `***` wherever a response contains it."""

import base64
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

from pydantic import SecretStr

_URL_SAFE: Final[Mapping[str, str]] = {"+": "-", "/": "_"}
# A shorter key is not a secret, and its encodings would occur in unrelated text.
_SHORTEST_ENCODED: Final = 8
_LINE_BREAKS: Final = r"(?:[\r\n]|\\{1,4}[rn])*"
_HIDDEN: Final = b"***"


class Redaction:
    """Replaces one key in these forms: plain, in base64 or hexadecimal, escaped as in JSON, URLs or HTML."""

    def __init__(self, api_key: SecretStr) -> None:
        self._key = api_key

    @cached_property
    def _spellings(self) -> re.Pattern[bytes]:
        return _spellings(self._key.get_secret_value())

    def of_bytes(self, content: bytes) -> bytes:
        """Return the content without the key."""
        # No form is shorter than the key. Compiling the pattern of a key with 48 characters takes 40 ms of CPU.
        return content if len(content) < len(self._key) else self._spellings.sub(_HIDDEN, content)

    def of_text(self, text: str) -> str:
        """Return the text without the key; undecodable bytes in it do not change."""
        return self.of_bytes(text.encode(errors="surrogateescape")).decode(errors="surrogateescape")


def _spellings(key: str) -> re.Pattern[bytes]:
    ways = ["".join(map(_escaped, key))]
    if len(key) >= _SHORTEST_ENCODED:
        ways += [r"(?:[ :,]|\\{1,4}x|0x)*".join(f"(?i:{ord(char):02x})" for char in key), *_in_base64(key)]
    return re.compile("|".join(ways).encode())


def _escaped(char: str) -> str:
    number = ord(char)
    coded = rf"\\{{1,4}}u{number:04x}|%(?:25)?{number:02x}|&#(?:0*{number}|x0*{number:x});"
    return rf"(?:\\{{0,4}}{re.escape(char)}|(?i:{coded}))"


def _in_base64(key: str) -> Iterator[str]:
    """Yield patterns of the key in base64, URL-safe or not, at each offset in the encoded text (after `Bearer `)."""
    for before in range(3):
        encoded = base64.b64encode(b"x" * before + key.encode() + b"xxx").decode()
        # The characters that depend on the key alone; those before and after, which depend on it in part, are optional.
        sure = encoded[-(-8 * before // 6) : 8 * (before + len(key)) // 6]
        spelt = (f"(?:{_escaped(char)}|{_escaped(_URL_SAFE.get(char, char))})" for char in sure)
        yield f"[A-Za-z0-9+/_-]?{_LINE_BREAKS.join(spelt)}[A-Za-z0-9+/_-]?"

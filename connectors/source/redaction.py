"""Replaces the API key by `***` wherever a response contains it."""

import base64
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from pydantic import SecretStr

# A shorter key is not a secret, and its encodings would occur in unrelated text.
_SHORTEST_ENCODED: Final = 8


class Redaction:
    """Replaces one key in the forms in which a gateway repeats a header: as it is, escaped, hexadecimal or base64."""

    def __init__(self, api_key: SecretStr) -> None:
        self._key = api_key

    @cached_property
    def _spellings(self) -> re.Pattern[bytes]:
        key = self._key.get_secret_value()
        spellings = ["".join(map(_escaped, key))]
        if len(key) >= _SHORTEST_ENCODED:
            spellings += [f"(?i:{key.encode().hex()})", *_in_base64(key)]
        return re.compile("|".join(spellings).encode())

    def of_bytes(self, content: bytes) -> bytes:
        """Return the content without the key."""
        # No form is shorter than the key. The pattern is compiled when it is first needed, because that takes long.
        return content if len(content) < len(self._key) else self._spellings.sub(b"***", content)

    def of_text(self, text: str) -> str:
        """Return the text without the key; undecodable bytes in it do not change."""
        return self.of_bytes(text.encode(errors="surrogateescape")).decode(errors="surrogateescape")


def _escaped(char: str) -> str:
    """Return the pattern of a character, which JSON and URLs may escape, also twice."""
    number = ord(char)
    return rf"(?:\\{{0,4}}{re.escape(char)}|(?i:\\{{1,4}}u{number:04x}|%(?:25)?{number:02x}))"


def _in_base64(key: str) -> Iterator[str]:
    """Yield patterns of the key in base64, URL-safe or not, at each offset in the encoded text (after `Bearer `)."""
    for before in range(3):
        encoded = base64.b64encode(b"x" * before + key.encode() + b"xxx").decode()
        # The characters that depend on the key alone; those before and after depend on it in part.
        sure = encoded[-(-8 * before // 6) : 8 * (before + len(key)) // 6]
        both = "".join({"+": "[+-]", "/": r"(?:\\?/|_)"}.get(char, char) for char in sure)
        yield f"[A-Za-z0-9+/_-]?{both}[A-Za-z0-9+/_-]?"

"""Replaces the API key by `***` wherever a response contains it."""

import re

from pydantic import SecretStr


class Redaction:
    """Replaces one key, as it is or with characters that JSON or a URL escapes."""

    def __init__(self, api_key: SecretStr) -> None:
        self._shortest = len(api_key)
        self._pattern = re.compile("".join(map(_escaped, api_key.get_secret_value())).encode())

    def of_bytes(self, content: bytes) -> bytes:
        """Return the content without the key."""
        # No form is shorter than the key; most headers are.
        return content if len(content) < self._shortest else self._pattern.sub(b"***", content)

    def of_text(self, text: str) -> str:
        """Return the text without the key; undecodable bytes in it do not change."""
        return self.of_bytes(text.encode(errors="surrogateescape")).decode(errors="surrogateescape")


def _escaped(char: str) -> str:
    """Return the pattern of a character, which JSON and URLs may escape, also twice."""
    number = ord(char)
    return rf"(?:\\{{0,4}}{re.escape(char)}|(?i:\\{{1,4}}u{number:04x}|%(?:25)?{number:02x}))"

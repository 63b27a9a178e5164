"""The types of a request and its reply, and correlation ids."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Literal, NamedTuple

from connectors.sandbox.contract import ACCOUNTS, DEFAULT_LIMIT, ERRORS, MEDIA, Code, Issue, envelope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_TAIL = 8


def crockford(number: int, length: int) -> str:
    """Return the low ``5 * length`` bits of a number in Crockford's base 32."""
    return "".join(_ALPHABET[(number >> (5 * index)) & 31] for index in reversed(range(length)))


class CorrelationIds:
    """Generates unique ids: ten characters of the start time, eight of the seed, eight of a counter."""

    def __init__(self, seed: int, started: float) -> None:
        digest = int.from_bytes(blake2b(f"correlation {seed}".encode(), digest_size=8).digest())
        self._head = crockford(int(started * 1000), 10) + crockford(digest, 26 - 10 - _TAIL)
        self._numbers = count(1)

    def new(self) -> str:
        """Return the next id; the ids repeat after 2**40."""
        n = next(self._numbers)
        pairs = _PAIRS
        head = self._head
        return f"{head}{pairs[n >> 30 & 1023]}{pairs[n >> 20 & 1023]}{pairs[n >> 10 & 1023]}{pairs[n & 1023]}"


Headers = list[tuple[bytes, bytes]]
_JSON = b"application/json"


class Resource(NamedTuple):
    """The resource of a cursor: the account list, or one account (by position) and surface."""

    position: int | None = None
    surface: str | None = None

    @property
    def operation(self) -> str:
        """Return the operation id (API 4)."""
        return ACCOUNTS if self.position is None else MEDIA


@dataclass(slots=True)
class Asked:
    """The values of a request, set while it is checked, and logged at the end."""

    correlation_id: str
    arrived: float
    operation: str | None = None
    account_id: str | None = None
    surface: str | None = None
    cursor: str | None = None
    limit: int = DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply: status, headers without the correlation id, body, and how the connection ends.

    ``padding`` spaces follow the body. ``promised`` is the Content-Length to send if it is not the real one.
    ``ending``: ``cut`` closes the connection after the body, ``reset`` resets it without sending anything.
    ``correlated``: whether the reply has an X-Correlation-ID. ``code`` is the error code for the log. ``delay`` is in
    seconds, before anything is sent.
    """

    status: int
    body: bytes
    headers: Headers
    code: str | None = None
    correlated: bool = True
    promised: int | None = None
    padding: int = 0
    ending: Literal["whole", "cut", "reset"] = "whole"
    delay: float = 0.0


class Refused(Exception):  # noqa: N818 - an error response, not a failure of the server
    """The request is answered with an error of section 7."""

    def __init__(
        self, code: Code, *, issues: Sequence[Issue] = (), headers: Mapping[bytes, bytes] | None = None
    ) -> None:
        super().__init__(code)
        self.code = code
        self.issues = issues
        self.headers = dict(headers or {})

    def reply(self, correlation_id: str) -> Reply:
        """Return the error reply as documented, including WWW-Authenticate for 401 (API 5.7)."""
        row = ERRORS[self.code]
        headers = dict(self.headers)
        if row.status == 401:
            headers[b"www-authenticate"] = b"Bearer"
        return json_reply(
            row.status,
            envelope(row.code, row.message, correlation_id, self.issues),
            code=row.code,
            extra=headers,
        )


def json_reply(
    status: int, body: bytes, *, code: str | None = None, extra: Mapping[bytes, bytes] | None = None
) -> Reply:
    """Return a reply with the content type ``application/json`` and further headers."""
    headers = [(b"content-type", _JSON)]
    if extra:
        headers.extend(extra.items())
    return Reply(status, body, headers, code=code)

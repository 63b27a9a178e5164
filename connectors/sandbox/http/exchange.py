"""One request and its reply, as the rest of the sandbox speaks of them."""

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
    """An endless supply of ids: ten characters of start time, eight of seed, eight of counter."""

    def __init__(self, seed: int, started: float) -> None:
        digest = int.from_bytes(blake2b(f"correlation {seed}".encode(), digest_size=8).digest())
        self._head = crockford(int(started * 1000), 10) + crockford(digest, 26 - 10 - _TAIL)
        self._numbers = count(1)

    def new(self) -> str:
        """Return the next id; 2**40 of them differ."""
        n = next(self._numbers)
        pairs = _PAIRS
        head = self._head
        return f"{head}{pairs[n >> 30 & 1023]}{pairs[n >> 20 & 1023]}{pairs[n >> 10 & 1023]}{pairs[n & 1023]}"


Headers = list[tuple[bytes, bytes]]
_JSON = b"application/json"


class Resource(NamedTuple):
    """What a cursor is bound to: the account list, or one account (by position) and surface."""

    position: int | None = None
    surface: str | None = None

    @property
    def operation(self) -> str:
        """Return the operation id (API 4)."""
        return ACCOUNTS if self.position is None else MEDIA


@dataclass(slots=True)
class Asked:
    """What is known of a request so far; filled while it is checked, and logged at the end."""

    correlation_id: str
    arrived: float
    operation: str | None = None
    account_id: str | None = None
    surface: str | None = None
    cursor: str | None = None
    limit: int = DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent: status, headers without the correlation id, body, and how the connection ends.

    ``padding`` spaces follow the body; ``promised`` is the Content-Length sent when it is not the true
    one; ``ending`` ``cut`` closes the connection after the body, ``reset`` sends nothing and resets it.
    ``correlated`` says whether the reply carries X-Correlation-ID; ``code`` is the error code, for the
    log; ``delay`` is in seconds, before anything is sent.
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


class Refused(Exception):  # noqa: N818 - it is an answer, not a failure of ours
    """A request is answered with an error of section 7."""

    def __init__(
        self, code: Code, *, issues: Sequence[Issue] = (), headers: Mapping[bytes, bytes] | None = None
    ) -> None:
        super().__init__(code)
        self.code = code
        self.issues = issues
        self.headers = dict(headers or {})

    def reply(self, correlation_id: str) -> Reply:
        """Return the error as the contract spells it, 401's WWW-Authenticate included (API 5.7)."""
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
    """Return a reply of ``application/json`` with further headers."""
    headers = [(b"content-type", _JSON)]
    if extra:
        headers.extend(extra.items())
    return Reply(status, body, headers, code=code)

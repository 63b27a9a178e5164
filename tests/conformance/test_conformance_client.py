"""The client against recorded malformed responses: each has its expected error, and the next valid response is read.

The first line of a file in `recordings` describes the response, which comes after its outcomes. Those are written by
hand from API 7 and 8, not derived from gramhouse's own tables: `# => THEN [CODE STATUS] [name=value ...]`. THEN is:

- `lands`: the page lands,
- `again`: it is requested again soon,
- `hold`: no request is sent before the announced wait is over,
- `skip`: only this scan fails,
- `restart`: the scan begins again at its first page,
- `defer`: the scan is left to a later run.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from connectors.source.client import ApiClient
from connectors.source.errors import ApiError
from connectors.source.messages import accounts_request
from tests.clocks import VirtualClock
from tests.servers import Stage

_FOLDER = Path(__file__).parent / "recordings"

TRACE, GOOD_TRACE = "01J9ZK4TQ8M3V5X7B2C6D0FGHN", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"
_ACCOUNT = {"ig_username": "good", "public_id": "abcdefghijkl", "status": "active"}
_ITEMS = [{"id": f"00000000-0000-4000-8000-{number:012d}", **_ACCOUNT} for number in (1, 2)]
_GOOD = json.dumps({"items": _ITEMS, "next_cursor": "good"})
GOOD = (
    f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Correlation-ID: {GOOD_TRACE}\r\n"
    f"Content-Length: {len(_GOOD)}\r\n\r\n{_GOOD}"
).encode()
# Another answer of the service.
NEXT_TRACE = GOOD_TRACE.replace("7", "6")
NEXT_GOOD = GOOD.replace(GOOD_TRACE.encode(), NEXT_TRACE.encode())
_DEEP = b"[" * 200_000


def _with(header: bytes) -> bytes:
    return GOOD.replace(b"Content-Type", header + b"Content-Type", 1)


# Responses that are too large for files, with their outcome.
_SWOLLEN: Mapping[str, tuple[str, bytes]] = {
    "header of 60,000 bytes": ("lands items=2", _with(b"X-Long: " + b"x" * 60_000 + b"\r\n")),
    "header of 64 KiB": ("again protocol_error - lost", _with(b"X-Long: " + b"x" * 65_536 + b"\r\n")),
    "1,000 headers": ("again protocol_error - lost", _with(b"".join(b"X-%d: x\r\n" % n for n in range(1_000)))),
    "status line without an end": ("again protocol_error - lost", b"HTTP/1.1 200 " + b"O" * 70_000),
    "100 Continue, 1,000 times": ("lands items=2", b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000 + GOOD),
    "refusal of 300,000 bytes": (
        "hold http_429 429 wait=7",
        b"HTTP/1.1 429 X\r\nX-Correlation-ID: %s\r\nRetry-After: 7\r\nContent-Length: 300000\r\n\r\n"
        % GOOD_TRACE.encode()
        + b"x" * 300_000,
    ),
    "JSON 200,000 deep": (
        "again malformed_page 200 lost",
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(_DEEP) + _DEEP,
    ),
}


@dataclass(frozen=True)
class Case:
    """A response, and its outcome, with what is `given` of it.

    `wait`: seconds announced. `closes`: the answer ends with its connection. `pause`: what comes first, the "head" or
    the first "answer", and not in one piece with the rest. `items`: of the page. `kind`: of the outcome. `lost`: no
    correlation id is kept. `says`: a part of the message, with _ for spaces. `timed`: the client's patience is what
    ends it.
    """

    name: str
    sent: bytes
    then: str
    code: str
    status: int | None
    given: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.name}, {self.given['pause']} first" if "pause" in self.given else self.name

    @property
    def trace(self) -> str | None:
        """Return the correlation id that is kept."""
        return None if "lost" in self.given else GOOD_TRACE if self.name in _SWOLLEN else TRACE

    def pieces(self) -> list[bytes]:
        """Return what comes before and after the pause."""
        if "pause" not in self.given:
            return [self.sent]
        at = self.sent.index(b"\r\n\r\n") + 4
        if self.given["pause"] == "answer" and (stated := re.search(rb"Content-Length: ([0-9]+)", self.sent)):
            at += int(stated[1])
        return [self.sent[:at], self.sent[at:]]


def _case(name: str, sent: bytes, outcome: str) -> Case:
    then, *words = outcome.split()
    code, status = ("", "200") if then == "lands" else (words.pop(0), words.pop(0))
    given = {name: value for name, _, value in (word.partition("=") for word in words)}
    return Case(name, sent, then, code, None if status == "-" else int(status), given)


def _read(path: Path) -> list[Case]:
    head = re.match(rb"# (?!=> )[^\n]+\n((?:# => [^\n]+\n)+)", content := path.read_bytes())
    assert head, path
    return [_case(path.stem, content[head.end() :], line[5:]) for line in head[1].decode().splitlines()]


CASES = [
    *(case for path in sorted(_FOLDER.glob("*.http")) for case in _read(path)),
    *(_case(name, sent, outcome) for name, (outcome, sent) in _SWOLLEN.items()),
]


async def heard(iterations: int = 20) -> None:
    """Let the client read: it runs on the same event loop, so a few iterations are enough."""
    for _ in range(iterations):
        await asyncio.sleep(0)


KEY = "cnry7Zq4f1e9bXw"
REQUEST = accounts_request(None, 50)
NEXT = {"again": {"retry"}, "hold": {"wait", "retry"}, "defer": {"wait"}, "skip": {"skip"}, "restart": {"restart"}}
# An hour ahead of the recorded servers.
CLOCK = VirtualClock(since=datetime(2026, 11, 21, 21, tzinfo=UTC))


@pytest.mark.anyio
@pytest.mark.parametrize("one", CASES, ids=str)
async def test_each_response_has_its_outcome_and_the_next_is_read(one: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    if "timed" in one.given:
        monkeypatch.setattr("connectors.source.client.LONGEST", 0.3)
    answers = iter([one.pieces()])

    async def play(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pieces = next(answers, None)
        for number, piece in enumerate(pieces or [NEXT_GOOD]):
            if number:
                await heard()
            writer.write(piece)
        if pieces and "closes" in one.given:
            await writer.drain()
            writer.close()

    async with Stage(play).open() as server, ApiClient(server.url, SecretStr(KEY), clock=CLOCK) as client:
        if one.then == "lands":
            response = await client.send(REQUEST)
            assert (len(response.page.records), response.correlation_id) == (int(one.given.get("items", 1)), one.trace)
        else:
            with pytest.raises(ApiError) as caught:
                await client.send(REQUEST)
            failure = caught.value
            assert (failure.code, failure.status, failure.correlation_id) == (one.code, one.status, one.trace)
            wait = float(one.given["wait"]) if "wait" in one.given else None
            assert (failure.retry_after, failure.rule.outcome) == (wait, one.given.get("kind", "failed"))
            assert failure.rule.disposition.value in NEXT[one.then]
            assert (failure.__cause__, failure.__context__) == (None, None)
            assert (str(failure).isprintable(), len(failure.message) <= 200) == (True, True)
            assert one.given.get("says", "").replace("_", " ") in failure.message
            assert KEY not in repr(vars(failure))
        await heard(60)
        response = await client.send(REQUEST)
        assert (len(response.page.records), response.correlation_id) == (len(_ITEMS), NEXT_TRACE)
        assert len(server.heads) == 2

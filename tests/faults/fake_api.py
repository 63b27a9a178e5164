"""A fake API that serves a world's pages, and at one page, for one run, a fault."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any
from urllib.parse import parse_qs

import httpx

from tests.faults.replies import TRACED, Page, Pieces, Reply, rendered
from tests.faults.world import CATALOGUE, Item, Where, World

# With special characters, so that a cursor that is encoded wrongly does not match.
_CURSOR = re.compile(r"c\+/=&%é#(\d)(\w*)")
_NUMBERS = count()
_MEDIA = re.compile(r"/api/v1/accounts/([0-9a-f-]{36})/media")


def cursor_to(index: int, mark: str = "") -> str:
    """Return the cursor of a page; a `mark` makes it a different cursor of the same page."""
    return f"c+/=&%é#{index}{mark}"


@dataclass(frozen=True)
class PageRequest:
    """A request for a page: partition, page index, cursor, and time."""

    where: Where
    index: int
    cursor: str | None
    mark: str
    world: World
    now: datetime

    @property
    def items(self) -> list[Item]:
        return [dict(item) for item in self.world[self.where][self.index]]

    @property
    def next_cursor(self) -> str | None:
        last = self.index + 1 == len(self.world[self.where])
        return None if last else cursor_to(self.index + 1)

    def page(self, items: list[Any] | None = None, **changed: Any) -> Reply:  # noqa: ANN401 - fields of Reply
        """Return a reply that must land, with the page's items or others."""
        items = self.items if items is None else items
        cursor = changed.pop("next_cursor", self.next_cursor)
        body = changed.pop("body", rendered(items, cursor))
        return Reply(body=body, page=Page(items, cursor), **changed)


MakeReply = Callable[[PageRequest], Reply]


@dataclass(frozen=True)
class ServedRequest:
    """A request and its reply."""

    where: Where
    cursor: str | None
    reply: Reply
    at: datetime


@dataclass
class FakeApi(httpx.AsyncBaseTransport):
    """Serves a world. `serve` makes the replies for page `index` of `where`, `times` times (None: always)."""

    world: World
    now: Callable[[], datetime]
    where: Where = CATALOGUE
    index: int = 0
    serve: MakeReply | None = None
    times: int | None = None
    served: list[ServedRequest] = field(default_factory=list)
    bodies: list[Pieces] = field(default_factory=list)

    @property
    def bytes_read(self) -> int:
        """The most bytes that were read of a body."""
        return max((body.bytes_read for body in self.bodies), default=0)

    def requested_cursors(self, where: Where) -> list[str | None]:
        return [one.cursor for one in self.served if one.where == where]

    def reply(self, path: str, query: str) -> Reply:
        asked = parse_qs(query, strict_parsing=True)
        media = _MEDIA.fullmatch(path)
        where = (media[1], asked["surface"][0]) if media else CATALOGUE
        assert media or path == "/api/v1/accounts"
        cursor = asked["cursor"][0] if "cursor" in asked else None
        reply = self._reply(where, cursor)
        self.served.append(ServedRequest(where, cursor, reply, self.now()))
        return reply

    def _reply(self, where: Where, cursor: str | None) -> Reply:
        found = _CURSOR.fullmatch(cursor) if cursor is not None else None
        assert cursor is None or found, "an unknown cursor"
        index, mark = (int(found[1]), found[2]) if found else (0, "")
        request = PageRequest(where, index, cursor, mark, self.world, self.now())
        if self.serve is None or (where, index) != (self.where, self.index) or self.times == 0:
            return request.page()
        if self.times is not None:
            self.times -= 1
        return self.serve(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # Nothing is awaited before the reply: the loop's time may only be advanced while no other request is open.
        reply = self.reply(request.url.path, request.url.query.decode())
        if reply.error is not None:
            raise reply.error
        body = Pieces(reply.pieces() if reply.pieces is not None else _whole(reply.body))
        self.bodies.append(body)
        headers = dict(reply.headers)
        if reply.page is not None and "x-correlation-id" in headers:
            # Only a cache would repeat the id of a page.
            headers["x-correlation-id"] = f"{next(_NUMBERS):026d}"
        return httpx.Response(reply.status, headers=headers, stream=body)

    def no_page_twice(self) -> bool:
        return max(Counter((one.where, one.cursor) for one in self.served).values()) == 1


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


def api_error(status: int, code: str, **headers: str) -> Reply:
    """Return an error of section 7 as the API sends it."""
    text = f'{{"error":{{"code":"{code}","message":"No.","correlation_id":"{TRACED["x-correlation-id"]}"}}}}'
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, text.encode(), TRACED | named, code=code)

"""The API as a player of pages: in one place, for one run, it does what a fault says."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs

import httpx

from tests.faults.answers import TRACED, Answer, Page, Pieces, rendered
from tests.faults.world import CATALOGUE, Item, Where, World

# Marked so that only a cursor that travelled unchanged is one.
_CURSOR = re.compile(r"c\+/=&%é#(\d)(\w*)")
_MEDIA = re.compile(r"/api/v1/accounts/([0-9a-f-]{36})/media")


def cursor_to(index: int, mark: str = "") -> str:
    """The cursor of the page with this index; a `mark` makes it another cursor to the same page."""
    return f"c+/=&%é#{index}{mark}"


@dataclass(frozen=True)
class Scene:
    """What a fault finds where it happens: the page asked for, the cursor that asked, and the time."""

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

    def page(self, items: list[Any] | None = None, **changed: Any) -> Answer:  # noqa: ANN401 - fields of Answer
        """The page, or other items in its place, that lands."""
        items = self.items if items is None else items
        cursor = changed.pop("next_cursor", self.next_cursor)
        body = changed.pop("body", rendered(items, cursor))
        return Answer(body=body, page=Page(items, cursor), **changed)


Serve = Callable[[Scene], Answer]


@dataclass(frozen=True)
class Served:
    """A request, and what it was answered."""

    where: Where
    cursor: str | None
    answer: Answer
    at: datetime


@dataclass
class Player(httpx.AsyncBaseTransport):
    """Plays a world. `serve` answers for page `index` of `where`, so many `times` (None: whenever it is asked for)."""

    world: World
    now: Callable[[], datetime]
    where: Where = CATALOGUE
    index: int = 0
    serve: Serve | None = None
    times: int | None = None
    served: list[Served] = field(default_factory=list)
    taken: int = 0

    def asked(self, where: Where) -> list[str | None]:
        return [one.cursor for one in self.served if one.where == where]

    def answer(self, path: str, query: str) -> Answer:
        asked = parse_qs(query, strict_parsing=True)
        media = _MEDIA.fullmatch(path)
        where = (media[1], asked["surface"][0]) if media else CATALOGUE
        assert media or path == "/api/v1/accounts"
        cursor = asked["cursor"][0] if "cursor" in asked else None
        answer = self._answer(where, cursor)
        self.served.append(Served(where, cursor, answer, self.now()))
        return answer

    def _answer(self, where: Where, cursor: str | None) -> Answer:
        found = _CURSOR.fullmatch(cursor) if cursor is not None else None
        assert cursor is None or found, "a cursor that nobody gave"
        index, mark = (int(found[1]), found[2]) if found else (0, "")
        scene = Scene(where, index, cursor, mark, self.world, self.now())
        if self.serve is None or (where, index) != (self.where, self.index) or self.times == 0:
            return scene.page()
        if self.times is not None:
            self.times -= 1
        return self.serve(scene)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # Nothing is awaited before the answer: time may only leap while no other request is on its way.
        answer = self.answer(request.url.path, request.url.query.decode())
        if answer.error is not None:
            raise answer.error
        stream = Pieces(answer.pieces() if answer.pieces is not None else _whole(answer.body))
        return httpx.Response(answer.status, headers=answer.headers, stream=_Counting(self, stream))

    def no_page_twice(self) -> bool:
        return max(Counter((one.where, one.cursor) for one in self.served).values()) == 1


async def _whole(body: bytes) -> AsyncIterator[bytes]:
    yield body


class _Counting(httpx.AsyncByteStream):
    def __init__(self, player: Player, pieces: Pieces) -> None:
        self._player = player
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            self._player.taken = max(self._player.taken, self._pieces.taken)
            yield piece


def refusal(status: int, code: str, **headers: str) -> Answer:
    """An error of section 7, as the API would say it."""
    text = f'{{"error":{{"code":"{code}","message":"No.","correlation_id":"{TRACED["x-correlation-id"]}"}}}}'
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, text.encode(), TRACED | named, code=code)

from collections.abc import Mapping

import pytest

from connectors.source.endpoints import ACCOUNTS, Response
from connectors.source.errors import ApiError, Disposition
from connectors.source.pagination import CursorTrail, walk
from models.wire import MediaPage

pytestmark = pytest.mark.anyio


def answer(cursor: str | None, items: int = 1) -> Response:
    return Response(ACCOUNTS, MediaPage(items, cursor, frozenset(), ""), "C")


class Listing:
    def __init__(self, pages: Mapping[str | None, str | None], items: int = 1) -> None:
        self.pages = pages
        self.items = items
        self.asked: list[str | None] = []

    async def ask(self, cursor: str | None) -> Response:
        self.asked.append(cursor)
        return answer(self.pages[cursor], self.items)


async def test_a_walk_ends_at_null_and_not_at_an_empty_page() -> None:
    listing = Listing({None: "a", "a": "b", "b": None}, items=0)
    assert [page.page.next_cursor async for page in walk(listing.ask, None)] == ["a", "b", None]
    assert listing.asked == [None, "a", "b"]


async def test_a_walk_resumes_at_its_cursor() -> None:
    listing = Listing({"a": "b", "b": None})
    assert [page.page.next_cursor async for page in walk(listing.ask, "a")] == ["b", None]


async def test_no_page_is_asked_for_before_it_is_wanted() -> None:
    listing = Listing({None: "a", "a": None})
    pages = walk(listing.ask, None)
    assert listing.asked == []
    await anext(pages)
    assert listing.asked == [None]
    await anext(pages)
    assert listing.asked == [None, "a"]


@pytest.mark.parametrize(
    ("pages", "start", "landed"),
    [
        ({None: "a", "a": "a"}, None, 1),
        ({None: "a", "a": "b", "b": "a"}, None, 2),
        ({None: "a", "a": "b", "b": "c", "c": "d", "d": "b"}, None, 4),
        ({"a": "b", "b": "a"}, "a", 1),
        ({"a": "a"}, "a", 0),
    ],
    ids=["repeats", "two in a circle", "a circle further on", "back to the resumed one", "resumed on itself"],
)
async def test_a_walk_in_a_circle_fails_at_once_and_hands_on_nothing_that_leads_back(
    pages: dict[str | None, str | None], start: str | None, landed: int
) -> None:
    listing = Listing(pages)
    pages_on = walk(listing.ask, start)
    for _ in range(landed):
        await anext(pages_on)
    with pytest.raises(ApiError) as caught:
        await anext(pages_on)
    assert len(listing.asked) == landed + 1
    error = caught.value
    assert (error.code, error.disposition, error.outcome) == ("cursor_loop", Disposition.SKIP, "failed")
    assert (error.operation, error.correlation_id) == (ACCOUNTS, "C")


async def test_what_the_asker_raises_goes_through() -> None:
    async def broken(cursor: str | None) -> Response:
        raise ConnectionError(cursor)

    with pytest.raises(ConnectionError):
        await anext(walk(broken, None))


def test_a_trail_remembers_sixteen_bytes_per_cursor_and_compares_them_exactly() -> None:
    trail = CursorTrail(None)
    for cursor in ("A", "a", " a", "ä", "a" * 1024):
        assert trail.follow(answer(cursor)) == cursor
    assert trail.follow(answer(None)) is None
    with pytest.raises(ApiError):
        trail.follow(answer("ä"))

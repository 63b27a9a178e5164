from collections.abc import Iterator, Mapping
from itertools import chain, count, repeat

import pytest

from connectors.source.endpoints import ACCOUNTS, Response
from connectors.source.errors import ApiError, Disposition
from connectors.source.pagination import MOST_EMPTY, MOST_REPEATED, CursorTrail, Progress, scan
from models.api import MediaPage

pytestmark = pytest.mark.anyio


def answer(cursor: str | None, items: int = 1) -> Response:
    return Response(ACCOUNTS, MediaPage(items, cursor, frozenset(), ""), "C")


def always_new() -> Progress:
    numbers = count()
    return Progress(lambda _: [str(next(numbers))])


class Endless:
    """A fresh cursor with every page, and the items that a test thinks of."""

    def __init__(self, pages: Iterator[tuple[str, ...]], *, last: int | None = None) -> None:
        self.pages = pages
        self.last = last
        self.asked = 0

    async def ask(self, _: str | None) -> Response:
        self.asked += 1
        ids = next(self.pages)
        cursor = None if self.asked == self.last else f"c{self.asked}"
        return Response(ACCOUNTS, MediaPage(len(ids), cursor, frozenset(), "", ids), "C")

    async def scanned(self, progress: Progress | None = None) -> int:
        """How many pages were handed on."""
        found = progress or Progress(lambda response: getattr(response.page, "ids", ()))
        return len([page async for page in scan(self.ask, None, found)])


class Listing:
    def __init__(self, pages: Mapping[str | None, str | None], items: int = 1) -> None:
        self.pages = pages
        self.items = items
        self.asked: list[str | None] = []

    async def ask(self, cursor: str | None) -> Response:
        self.asked.append(cursor)
        return answer(self.pages[cursor], self.items)


async def test_a_scan_ends_at_null_and_not_at_an_empty_page() -> None:
    listing = Listing({None: "a", "a": "b", "b": None}, items=0)
    assert [page.page.next_cursor async for page in scan(listing.ask, None, always_new())] == ["a", "b", None]
    assert listing.asked == [None, "a", "b"]


async def test_a_scan_resumes_at_its_cursor() -> None:
    listing = Listing({"a": "b", "b": None})
    assert [page.page.next_cursor async for page in scan(listing.ask, "a", always_new())] == ["b", None]


async def test_no_page_is_asked_for_before_it_is_wanted() -> None:
    listing = Listing({None: "a", "a": None})
    pages = scan(listing.ask, None, always_new())
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
async def test_a_scan_in_a_circle_fails_at_once_and_hands_on_nothing_that_leads_back(
    pages: dict[str | None, str | None], start: str | None, landed: int
) -> None:
    listing = Listing(pages)
    pages_on = scan(listing.ask, start, always_new())
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
        await anext(scan(broken, None, always_new()))


def test_a_trail_remembers_sixteen_bytes_per_cursor_and_compares_them_exactly() -> None:
    trail = CursorTrail(None)
    for cursor in ("A", "a", " a", "ä", "a" * 1024):
        assert trail.follow(answer(cursor)) == cursor
    assert trail.follow(answer(None)) is None
    with pytest.raises(ApiError):
        trail.follow(answer("ä"))


@pytest.mark.parametrize(
    ("pages", "asked"),
    [
        (repeat(("1", "2")), 1 + MOST_REPEATED),
        (chain([("1",), ("2",), ("3",)], repeat(("3", "1"))), 3 + MOST_REPEATED),
        (repeat(()), MOST_EMPTY),
        (chain([("1",)], ((), ("1",)) * 9, repeat(("1",))), 1 + 18 + 1),
    ],
    ids=["the same page", "some of the same items", "empty pages", "empty pages between"],
)
async def test_a_listing_without_an_end_fails_and_hands_on_nothing_more(
    pages: Iterator[tuple[str, ...]], asked: int
) -> None:
    listing = Endless(pages)
    with pytest.raises(ApiError) as caught:
        await listing.scanned()
    error = caught.value
    assert (error.code, error.disposition, error.outcome) == ("cursor_no_progress", Disposition.SKIP, "failed")
    assert (error.operation, error.correlation_id) == (ACCOUNTS, "C")
    assert listing.asked == asked


@pytest.mark.parametrize(
    "pages",
    [
        [("1",), *[("1",)] * (MOST_REPEATED - 1), ("2",), *[("1", "2")] * (MOST_REPEATED - 1), ("3",)],
        [("1",), *[()] * (MOST_EMPTY - 1), ("2",), *[()] * (MOST_EMPTY - 1), ("3",)],
        [("1",), *[("1",)] * MOST_REPEATED],
    ],
    ids=["new in time", "not empty in time", "ends in time"],
)
async def test_what_comes_to_something_in_time_is_scanned_to_its_end(pages: list[tuple[str, ...]]) -> None:
    assert await Endless(iter(pages), last=len(pages)).scanned() == len(pages)


async def test_pages_that_an_earlier_process_saw_in_vain_count() -> None:
    progress = Progress(lambda response: getattr(response.page, "ids", ()), repeated=6)
    progress.remember(["1", "2"])
    listing = Endless(repeat(("1", "2")))
    with pytest.raises(ApiError):
        await listing.scanned(progress)
    assert listing.asked == MOST_REPEATED - 6


def test_a_scans_memory_is_bounded_and_holds_a_thousand_full_pages() -> None:
    progress = Progress(lambda _: ())
    for page in range(5_000):
        assert progress.remember(f"{page}-{number}" for number in range(50))
    assert not progress.remember(f"4000-{number}" for number in range(50))
    assert len(progress._recent) + len(progress._older) <= 100_000  # noqa: SLF001 - what it is about

import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import chain, count, repeat

import pytest

from connectors.source.endpoints import ACCOUNTS, Response
from connectors.source.errors import ApiError, Disposition
from connectors.source.pagination import MOST_EMPTY, MOST_REPEATED, LoopGuard
from models.api import MediaPage


def answer(cursor: str | None, items: int = 1) -> Response:
    return Response(ACCOUNTS, MediaPage(items, cursor, frozenset(), b"", ""), "C")


class Listing:
    """An API with the next cursors of a test, or the ids of a test on endless pages; `asked` are the cursors sent."""

    def __init__(
        self,
        cursors: Mapping[str | None, str | None] | None = None,
        *,
        ids: Iterator[tuple[str, ...]] | None = None,
        last: int | None = None,
    ) -> None:
        self.cursors = cursors
        self.ids = ids or ((str(number),) for number in count())
        self.last = last
        self.asked: list[str | None] = []

    def followed(self, start: str | None = None, guard: LoopGuard | None = None) -> Iterator[str | None]:
        """Yield the cursors that a scan follows from this one to the end."""
        guard, cursor, is_first = guard or LoopGuard.after(start), start, True
        while is_first or cursor is not None:
            is_first = False
            self.asked.append(cursor)
            assert len(self.asked) <= 3 * MOST_EMPTY, "the listing is followed without an end"
            endless = None if len(self.asked) == self.last else f"c{len(self.asked)}"
            ids = next(self.ids)
            response = answer(endless if self.cursors is None else self.cursors[cursor], len(ids))
            guard.follow(response, ids)
            cursor = response.page.next_cursor
            yield cursor


def test_a_scan_ends_at_null_and_not_at_an_empty_page() -> None:
    listing = Listing({None: "a", "a": "b", "b": None}, ids=repeat(()))
    assert list(listing.followed()) == ["a", "b", None]
    assert listing.asked == [None, "a", "b"]


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
def test_a_page_with_a_repeated_cursor_fails_immediately(
    pages: dict[str | None, str | None], start: str | None, landed: int
) -> None:
    listing = Listing(pages)
    pages_on = listing.followed(start)
    for _ in range(landed):
        next(pages_on)
    with pytest.raises(ApiError) as caught:
        next(pages_on)
    assert len(listing.asked) == landed + 1
    error = caught.value.failure
    assert (error.code, error.disposition, error.outcome) == ("cursor_loop", Disposition.SKIP, "failed")
    assert (error.operation, error.correlation_id) == (ACCOUNTS, "C")


def test_a_guard_remembers_sixteen_bytes_per_cursor_and_compares_them_exactly() -> None:
    guard = LoopGuard()
    for cursor in ("A", "a", " a", "ä", "a" * 1024, None):
        guard.follow(answer(cursor), ())
    assert {len(digest) for digest in guard.cursors} == {16}
    with pytest.raises(ApiError):
        guard.follow(answer("ä"), ())


def test_another_process_continues_with_the_guard_of_a_scan() -> None:
    """Its hashes of texts differ."""
    begin = "import pickle, sys; from connectors.source.pagination import LoopGuard; guard = LoopGuard.after('c1', 9);"
    script = f"{begin} guard.remember(['1', '2', chr(0xd800)]); sys.stdout.buffer.write(pickle.dumps(guard))"
    guard = pickle.loads(subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True).stdout)
    assert not guard.remember(["2", "\ud800"])
    for cursor, code in (("c1", "cursor_loop"), ("c2", "cursor_no_progress")):
        with pytest.raises(ApiError, match=code):
            guard.follow(answer(cursor), ["1"])


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
def test_a_listing_without_an_end_fails(pages: Iterator[tuple[str, ...]], asked: int) -> None:
    listing = Listing(ids=pages)
    with pytest.raises(ApiError) as caught:
        list(listing.followed())
    error = caught.value.failure
    assert (error.code, error.disposition, error.outcome) == ("cursor_no_progress", Disposition.SKIP, "failed")
    assert (error.operation, error.correlation_id) == (ACCOUNTS, "C")
    assert len(listing.asked) == asked


@pytest.mark.parametrize(
    "pages",
    [
        [("1",), *[("1",)] * (MOST_REPEATED - 1), ("2",), *[("1", "2")] * (MOST_REPEATED - 1), ("3",)],
        [("1",), *[()] * (MOST_EMPTY - 1), ("2",), *[()] * (MOST_EMPTY - 1), ("3",)],
        [("1",), *[("1",)] * MOST_REPEATED],
    ],
    ids=["new in time", "not empty in time", "ends in time"],
)
def test_a_scan_that_makes_progress_in_time_reaches_its_end(pages: list[tuple[str, ...]]) -> None:
    assert len(list(Listing(ids=iter(pages), last=len(pages)).followed())) == len(pages)


def test_pages_that_an_earlier_process_saw_in_vain_count() -> None:
    guard = LoopGuard(repeated=6)
    guard.remember(["1", "2"])
    listing = Listing(ids=repeat(("1", "2")))
    with pytest.raises(ApiError):
        list(listing.followed(guard=guard))
    assert len(listing.asked) == MOST_REPEATED - 6


def test_a_scans_memory_is_bounded_and_holds_a_thousand_full_pages() -> None:
    guard = LoopGuard()
    for page in range(5_000):
        assert guard.remember(f"{page}-{number}" for number in range(50))
    assert not guard.remember(f"4000-{number}" for number in range(50))
    assert len(guard.recent) + len(guard.older) <= 100_000

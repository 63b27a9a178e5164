"""Scans without an end: what a guard notices, when, and what it remembers."""

import pickle
import subprocess
import sys
from collections.abc import Iterable, Sequence
from itertools import chain, repeat

import pytest

from connectors.source.endpoints import ACCOUNTS
from connectors.source.errors import SKIP, ApiError
from connectors.source.pagination import MOST_EMPTY, MOST_REPEATED, LoopGuard
from connectors.source.responses import Response
from models.api import Page

Listed = tuple[str | None, Sequence[str]]


def follow(guard: LoopGuard, pages: Iterable[Listed]) -> tuple[int, str]:
    """Follow pages, each a next cursor and the ids of its items; return how many were accepted, and the error."""
    number = 0
    for number, (cursor, ids) in enumerate(pages):
        try:
            page = Page(b"", [each.encode() for each in ids], cursor, frozenset())
            guard.follow(Response(ACCOUNTS, page, "C"), ids)
        except ApiError as error:
            failure = error.failure
            assert (failure.operation, failure.correlation_id) == (ACCOUNTS, "C")
            assert (failure.disposition, failure.outcome) == (SKIP, "failed")
            return number, failure.code
    return number + 1, ""


def endless(ids: Iterable[Sequence[str]]) -> Iterable[Listed]:
    return ((f"c{number}", each) for number, each in enumerate(ids))


@pytest.mark.parametrize(
    ("start", "cursors", "accepted"),
    [(None, "aa", 1), (None, "aba", 2), (None, "abcdb", 4), ("a", "ba", 1), ("a", "a", 0)],
)
def test_a_page_with_a_repeated_cursor_fails_immediately(start: str | None, cursors: str, accepted: int) -> None:
    pages = [(cursor, [str(number)]) for number, cursor in enumerate(cursors)]
    assert follow(LoopGuard.after(start), pages) == (accepted, "cursor_loop")


def test_cursors_are_compared_exactly() -> None:
    guard = LoopGuard()
    assert follow(guard, [(cursor, ()) for cursor in ("A", "a", " a", "ä", "a" * 1024, None)]) == (6, "")
    assert {len(digest) for digest in guard.cursors} == {16}
    assert follow(guard, [("ä", ())]) == (0, "cursor_loop")


@pytest.mark.parametrize(
    ("guard", "ids", "accepted"),
    [
        (LoopGuard(), repeat(("1", "2")), MOST_REPEATED),
        (LoopGuard(), chain([("1",), ("2",), ("3",)], repeat(("3", "1"))), 2 + MOST_REPEATED),
        (LoopGuard(), repeat(()), MOST_EMPTY - 1),
        (LoopGuard(), chain([("1",)], ((), ("1",)) * 9, repeat(("1",))), 19),
        # Pages that an earlier process saw in vain count.
        (LoopGuard.after("before", repeated=6), repeat(()), MOST_EMPTY - 1),
        (LoopGuard.after("before", empty=MOST_EMPTY - 2), repeat(()), 1),
    ],
    ids=["the same page", "some of the same items", "empty pages", "empty pages between", "resumed", "resumed, empty"],
)
def test_a_listing_without_an_end_fails(guard: LoopGuard, ids: Iterable[Sequence[str]], accepted: int) -> None:
    assert follow(guard, endless(ids)) == (accepted, "cursor_no_progress")


@pytest.mark.parametrize(
    "ids",
    [
        [("1",), *[("1",)] * (MOST_REPEATED - 1), ("2",), *[("1", "2")] * (MOST_REPEATED - 1), ("3",)],
        [("1",), *[()] * (MOST_EMPTY - 1), ("2",), *[()] * (MOST_EMPTY - 1), ("3",)],
    ],
    ids=["new in time", "not empty in time"],
)
def test_a_scan_that_makes_progress_in_time_goes_on(ids: list[tuple[str, ...]]) -> None:
    assert follow(LoopGuard(), endless(ids)) == (len(ids), "")
    guard = LoopGuard(repeated=MOST_REPEATED - 1)
    guard.remember(["1"])
    assert follow(guard, [(None, ["1"])]) == (1, ""), "the last page may have nothing new"


def test_another_process_continues_with_the_guard_of_a_scan() -> None:
    """Its hashes of texts differ."""
    begin = "import pickle, sys; from connectors.source.pagination import LoopGuard; guard = LoopGuard.after('c1', 9);"
    script = f"{begin} guard.remember(['1', '2', chr(0xd800)]); sys.stdout.buffer.write(pickle.dumps(guard))"
    guard = pickle.loads(subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True).stdout)
    assert not guard.remember(["2", "\ud800"])
    assert follow(guard, [("c1", ["1"])]) == (0, "cursor_loop")
    assert follow(guard, [("c2", ["1"])]) == (0, "cursor_no_progress")


def test_a_scans_memory_is_bounded_and_holds_a_thousand_full_pages() -> None:
    guard = LoopGuard()
    for page in range(5_000):
        assert guard.remember(f"{page}-{number}" for number in range(50))
    assert not guard.remember(f"4000-{number}" for number in range(50))
    assert len(guard.recent) + len(guard.older) <= 100_000

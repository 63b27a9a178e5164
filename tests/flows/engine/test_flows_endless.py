"""Scans without an end: what is noticed, when, and what is remembered."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

import pytest

from connectors.source.errors import SKIP, ApiError
from connectors.source.messages import ACCOUNTS, Memory, Response
from connectors.source.waits import Attempts, RateLimitBudget
from flows.engine.scan import MOST_EMPTY, MOST_REPEATED, Scan
from models.api import Page
from models.checkpoint import Checkpoint, Post
from models.feeds import media
from models.selection import ChosenAccount
from tests.clocks import START

Listed = tuple[str | None, Sequence[str]]
FRESH = Checkpoint(media("anna", "stories"), "scan", "run", START, START)


def begin(cursor: str | None = None, **progress: Any) -> Scan:  # noqa: ANN401 - fields of a checkpoint
    scan = Scan(ChosenAccount("anna"), FRESH, FRESH, Attempts(50), RateLimitBudget("anna", 0.0))
    scan.continue_at(replace(FRESH, cursor=cursor, **progress))
    return scan


def follow(scan: Scan, pages: Iterable[Listed]) -> tuple[int, str]:
    """Follow pages, each a next cursor and the ids of its items; return how many were accepted, and the error."""
    number = 0
    for number, (cursor, ids) in enumerate(pages):
        try:
            page = Page([each.encode() for each in ids], cursor, frozenset())
            posts = [Post(each, None) for each in ids]
            scan.follow(Response(ACCOUNTS, page, "C"), posts, at=START)
        except ApiError as error:
            about, rule = (error.operation, error.correlation_id), error.rule
            assert (about, rule.disposition, rule.outcome) == ((ACCOUNTS, "C"), SKIP, "failed")
            return number, error.code
    return number + 1, ""


@pytest.mark.parametrize(
    ("start", "cursors", "accepted"),
    [(None, "aa", 1), (None, "aba", 2), (None, "abcdb", 4), ("a", "ba", 1), ("a", "a", 0)],
)
def test_a_page_with_a_repeated_cursor_fails_immediately(start: str | None, cursors: str, accepted: int) -> None:
    pages = [(cursor, [str(number)]) for number, cursor in enumerate(cursors)]
    assert follow(begin(start), pages) == (accepted, "cursor_loop")


def test_cursors_are_compared_exactly() -> None:
    scan = begin()
    assert follow(scan, [(cursor, ()) for cursor in ("A", "a", " a", "ä", "a" * 1024)]) == (5, "")
    assert {len(digest) for digest in scan.cursors} == {16}
    assert follow(scan, [("ä", ())]) == (0, "cursor_loop")


ENDLESS = "cursor_no_progress"


@pytest.mark.parametrize(
    ("scan", "ids", "accepted", "code"),
    [
        (begin(), repeat(("1", "2")), MOST_REPEATED, ENDLESS),
        (begin(), chain([("1",), ("2",), ("3",)], repeat(("3", "1"))), 2 + MOST_REPEATED, ENDLESS),
        (begin(), repeat(()), MOST_EMPTY - 1, ENDLESS),
        (begin(), chain([("1",)], ((), ("1",)) * 9, repeat(("1",))), 19, ENDLESS),
        # Pages that an earlier process saw in vain count.
        (begin("before", repeated_pages=6), repeat(()), MOST_EMPTY - 1, ENDLESS),
        (begin("before", empty_pages=MOST_EMPTY - 2), repeat(()), 1, ENDLESS),
        (begin(), [*[("1",)] * MOST_REPEATED, ("2",), *[("1", "2")] * (MOST_REPEATED - 1)], 2 * MOST_REPEATED, ""),
        (begin(), [("1",), *[()] * (MOST_EMPTY - 1), ("2",), *[()] * (MOST_EMPTY - 1)], 2 * MOST_EMPTY, ""),
    ],
    ids=["the same page", "some of the same items", "empty pages", "empty pages between", "resumed", "resumed, empty",
         "new in time", "not empty in time"],
)  # fmt: skip
def test_a_listing_without_an_end_fails(scan: Scan, ids: Iterable[Sequence[str]], accepted: int, code: str) -> None:
    assert follow(scan, ((f"c{number}", each) for number, each in enumerate(ids))) == (accepted, code)


def test_the_last_page_may_have_nothing_new() -> None:
    scan = begin(repeated_pages=MOST_REPEATED - 1)
    scan.seen.remember("1")
    assert follow(scan, [(None, ["1"])]) == (1, "")


def test_a_memory_is_bounded_and_holds_a_thousand_full_pages() -> None:
    memory = Memory()
    assert all(memory.remember(str(number)) for number in range(250_000))
    assert not any(memory.remember(str(number)) for number in range(200_000, 250_000))
    assert len(memory.recent) + len(memory.older) <= 100_000

"""The selection of a backfill is the same in the warehouse and in its snapshot."""

import re
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest

from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.queries.selection import choose_accounts
from models.feeds import CATALOGUE, media
from models.runs import OutcomeKind, RunState
from models.selection import ChosenAccount, Selection, SelectionError
from tests.warehouse.rig import ANNA, BEN, Rig, account, at

CARA = "cccccccc-2222-4333-8444-555555555555"
GONE = "dddddddd-2222-4333-8444-555555555555"
BOTH = ("stories", "posts")

Found = list[tuple[str | None, tuple[str, ...]]]
Chooser = Callable[[Selection], Found]


@pytest.fixture
def peopled(rig: Rig) -> Rig:
    """Anna is active and was expired until hour 11; Ben is expired since then; Cara is active; one is gone."""
    expired = "token_expired"
    gone = account(GONE, name="gone")
    rig.scan(CATALOGUE, 0, [account(ANNA, name="anna", status=expired), account(BEN, name="Ben"), gone])
    listed = [account(ANNA, name="anna"), account(BEN, name="Ben", status=expired), account(CARA, name="cara")]
    rig.scan_twice(CATALOGUE, 11, listed)
    return rig


@pytest.fixture
def choose(peopled: Rig) -> Chooser:
    """Choose in the warehouse and in its snapshot; both must answer the same."""

    @cache
    def publish(_: int) -> Path:
        return peopled.publish()

    def both(selection: Selection) -> Found:
        found = choose_accounts(peopled.db, selection)
        with open_snapshot(publish(len(peopled.runs))) as snapshot:
            assert choose_accounts(snapshot.db, selection) == found
        return [(one.username, one.surfaces) for one in found]

    return both


BEN_AND_CARA: Found = [("Ben", BOTH), ("cara", BOTH)]
SINCE = at(11) + timedelta(minutes=1)
CHOSEN: list[tuple[Selection, Found]] = [
    (Selection((ANNA,), surfaces=("posts",)), [("anna", ("posts",))]),
    (Selection((ANNA,), surfaces=("posts", "stories", "posts")), [("anna", BOTH)]),
    *((Selection(typed), BEN_AND_CARA) for typed in (
        (BEN, CARA), (CARA, BEN.upper(), BEN), ("ben", "@CARA"), (" @Ben ", CARA.upper()))),
    # Those whose token was expired at any time since.
    (Selection(expired_since=SINCE), [("Ben", BOTH), ("anna", BOTH)]),
    (Selection(expired_since=SINCE + timedelta(minutes=1)), [("Ben", BOTH)]),
    (Selection(failed=True), []),
]  # fmt: skip


def test_accounts_are_found_by_id_or_name_in_any_case_each_once_by_name(peopled: Rig, choose: Chooser) -> None:
    for selection, found in CHOSEN:
        assert choose(selection) == found, selection
    [ben] = choose_accounts(peopled.db, Selection((BEN,)))
    assert ben == ChosenAccount(BEN, status="token_expired", username="Ben")


def test_unknown_accounts_are_named_with_a_hint(choose: Chooser) -> None:
    for typed, message in (
        (("abc",), "There is no account 'abc' in the warehouse"),
        ((ANNA, "@x\n; DROP TABLE t"), "There is no account '@x ; DROP TABLE t' in the warehouse"),
        ((GONE, "x"), f"'{GONE}' left the catalogue"),
        # The public id of all of them.
        (("K3XW9QBT5MZA",), "'K3XW9QBT5MZA' is the name of more than one account"),
    ):
        hint = ". Fix: `gramhouse accounts` lists all with their ids, and a sync finds new ones."
        with pytest.raises(SelectionError, match=f"^{re.escape(message + hint)}$"):
            choose(Selection(typed, everything=True))


def test_failed_selects_partitions_left_unfinished_by_their_last_attempt(peopled: Rig, choose: Chooser) -> None:
    kinds = OutcomeKind
    peopled.run("older", 30, {media(CARA, "stories"): kinds.FAILED})
    outcomes = {
        CATALOGUE: kinds.DENIED,
        media(ANNA, "posts"): kinds.DEFERRED,
        media(ANNA, "stories"): kinds.COMPLETE,
        media(BEN, "posts"): kinds.SKIPPED,
        media(BEN, "stories"): kinds.NOT_FOUND,
        media(CARA, "posts"): kinds.FAILED,
        media(CARA, "stories"): kinds.DENIED,
        media(GONE, "posts"): kinds.FAILED,
    }
    peopled.run("last", 40, outcomes)
    peopled.run("under way", 50, {media(BEN, "posts"): kinds.FAILED}, state=None)
    peopled.run("cut short", 60, {media(BEN, "posts"): kinds.FAILED}, state=RunState.INTERRUPTED)
    assert choose(Selection(failed=True)) == [("Ben", BOTH), ("anna", ("posts",)), ("cara", BOTH)]
    posts = [(name, ("posts",)) for name in ("Ben", "anna", "cara")]
    assert choose(Selection(("ben",), failed=True, surfaces=("posts",))) == posts
    peopled.run("well", 70, {media(ANNA, "posts"): kinds.COMPLETE})
    assert choose(Selection(failed=True)) == BEN_AND_CARA


def test_failed_without_failed_accounts_suggests_a_sync(peopled: Rig, choose: Chooser) -> None:
    outcomes = {CATALOGUE: OutcomeKind.FAILED, media(ANNA, "posts"): OutcomeKind.COMPLETE}
    peopled.run("r", 30, outcomes, state=RunState.FAILED)
    with pytest.raises(SelectionError, match="The account catalogue could not be fetched by the last run"):
        choose(Selection(failed=True))


def test_a_selection_has_the_same_text_in_every_spelling() -> None:
    typed = Selection(("b", "a", "b"), expired_since=at(0), failed=True, surfaces=("posts", "stories"))
    assert str(typed) == "a, b, --expired-since 2026-03-01T02:00:00Z, --failed (stories, posts)"
    assert str(Selection(everything=True, surfaces=("posts",))) == "--all (posts)"

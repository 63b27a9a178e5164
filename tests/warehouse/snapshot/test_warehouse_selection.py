"""The selection of a backfill is the same in the warehouse and in its snapshot."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.queries.selection import choose_accounts
from models.partition import CATALOGUE, media
from models.runs import OutcomeKind, RunState
from models.selection import ChosenAccount, Selection, SelectionError
from tests.warehouse.days import ANNA, BEN, Days, account, at

CARA = "cccccccc-2222-4333-8444-555555555555"
GONE = "dddddddd-2222-4333-8444-555555555555"
BOTH = ("stories", "posts")

Chooser = Callable[..., tuple[ChosenAccount, ...]]


@pytest.fixture
def peopled(days: Days) -> Days:
    """Anna is active and was expired until hour 11; Ben is expired since then; Cara is active; one is gone."""
    expired = "token_expired"
    gone = account(GONE, name="gone")
    days.catalogue(0, [account(ANNA, name="anna", status=expired), account(BEN, name="Ben"), gone])
    listed = [account(ANNA, name="anna"), account(BEN, name="Ben", status=expired), account(CARA, name="cara")]
    days.scan_twice(CATALOGUE, 11, listed)
    return days


@pytest.fixture
def ask_for(peopled: Days) -> Chooser:
    """Ask the warehouse and its snapshot; both must answer the same, or raise the same error."""

    def from_snapshot(selection: Selection) -> tuple[ChosenAccount, ...]:
        with open_snapshot(peopled.publish()) as snapshot:
            return choose_accounts(snapshot.db, selection)

    def from_both(selection: Selection) -> tuple[ChosenAccount, ...]:
        try:
            found = choose_accounts(peopled.rig.db, selection)
        except SelectionError as error:
            with pytest.raises(SelectionError, match=f"^{re.escape(str(error))}$"):
                from_snapshot(selection)
            raise
        assert from_snapshot(selection) == found
        return found

    return from_both


def names(found: tuple[ChosenAccount, ...]) -> list[str]:
    return [one.username or "" for one in found]


def test_an_account_has_its_surfaces_each_once_in_their_order(ask_for: Chooser) -> None:
    assert ask_for(Selection((ANNA,))) == (ChosenAccount(ANNA, username="anna"),)
    assert ask_for(Selection((BEN,))) == (ChosenAccount(BEN, status="token_expired", username="Ben"),)
    assert ask_for(Selection((ANNA,), surfaces=("posts",)))[0].surfaces == ("posts",)
    assert ask_for(Selection((ANNA,), surfaces=("posts", "stories", "posts")))[0].surfaces == BOTH


def test_accounts_are_found_by_id_or_username_in_any_case_each_once_by_name(ask_for: Chooser) -> None:
    for typed in ((BEN, CARA), (CARA, BEN.upper(), BEN), ("ben", "@CARA"), (" @Ben ", CARA.upper())):
        assert names(ask_for(Selection(typed))) == ["Ben", "cara"], typed


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("abc",), "There is no account 'abc' in the warehouse"),
        (
            (ANNA, "@x\n; DROP TABLE core.accounts"),
            "There is no account '@x ; DROP TABLE core.accounts' in the warehouse",
        ),
        ((GONE, "x"), f"'{GONE}' left the catalogue"),
        # The public id of all of them.
        (("K3XW9QBT5MZA",), "'K3XW9QBT5MZA' is the name of more than one account"),
    ],
)
def test_unknown_accounts_are_named_with_a_hint(ask_for: Chooser, typed: tuple[str, ...], message: str) -> None:
    hint = ". Fix: `gramhouse accounts` lists all with their ids, and a sync finds new ones."
    with pytest.raises(SelectionError, match=f"^{re.escape(message + hint)}$"):
        ask_for(Selection(typed, everything=True))


def test_expired_since_are_those_whose_token_was_expired_at_any_time_since(ask_for: Chooser) -> None:
    ended = at(11) + timedelta(minutes=1)
    for since, found in ((ended, ["Ben", "anna"]), (ended + timedelta(minutes=1), ["Ben"]), (at(9999), ["Ben"])):
        assert names(ask_for(Selection(expired_since=since))) == found, since


def test_failed_selects_partitions_left_unfinished_by_their_last_attempt(peopled: Days, ask_for: Chooser) -> None:
    kinds = OutcomeKind
    assert ask_for(Selection(failed=True)) == ()
    peopled.run("older", 30, {media(CARA, "stories"): kinds.FAILED})
    peopled.run(
        "last",
        40,
        {
            CATALOGUE: kinds.DENIED,
            media(ANNA, "posts"): kinds.DEFERRED,
            media(ANNA, "stories"): kinds.COMPLETE,
            media(BEN, "posts"): kinds.SKIPPED,
            media(BEN, "stories"): kinds.NOT_FOUND,
            media(CARA, "posts"): kinds.FAILED,
            media(CARA, "stories"): kinds.DENIED,
            media(GONE, "posts"): kinds.FAILED,
        },
    )
    peopled.run("under way", 50, {media(BEN, "posts"): kinds.FAILED}, state=None)
    peopled.run("cut short", 60, {media(BEN, "posts"): kinds.FAILED}, state=RunState.INTERRUPTED)
    found = ask_for(Selection(failed=True))
    assert [(one.username, one.surfaces) for one in found] == [
        ("Ben", BOTH), ("anna", ("posts",)), ("cara", BOTH),
    ]  # fmt: skip
    found = ask_for(Selection(("ben",), failed=True, surfaces=("posts",)))
    assert [(one.username, one.surfaces) for one in found] == [
        ("Ben", ("posts",)), ("anna", ("posts",)), ("cara", ("posts",)),
    ]  # fmt: skip
    peopled.run("well", 70, {media(ANNA, "posts"): kinds.COMPLETE})
    assert names(ask_for(Selection(failed=True))) == ["Ben", "cara"]


def test_failed_without_failed_accounts_suggests_a_sync(peopled: Days, ask_for: Chooser) -> None:
    outcomes = {CATALOGUE: OutcomeKind.FAILED, media(ANNA, "posts"): OutcomeKind.COMPLETE}
    peopled.run("r", 30, outcomes, state=RunState.FAILED)
    with pytest.raises(SelectionError, match="The account catalogue could not be fetched by the last run"):
        ask_for(Selection(failed=True))
    assert names(ask_for(Selection(("anna",)))) == ["anna"]


def test_a_selection_has_the_same_text_in_every_spelling() -> None:
    typed = Selection(("b", "a", "b"), expired_since=at(0), failed=True, surfaces=("posts", "stories"))
    assert str(typed) == "a, b, --expired-since 2026-03-01T02:00:00Z, --failed (stories, posts)"
    assert str(Selection(everything=True, surfaces=("posts",))) == "--all (posts)"

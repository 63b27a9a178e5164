"""When trouble is everywhere, and how often a run then asks."""

import pytest

from connectors.source.errors import ApiError
from connectors.source.rate_limit import Outage

AWAY = ApiError("accounts.media.list", "connection_failed", "refused")
LIMITED = ApiError("accounts.media.list", "rate_limiter_unavailable", "wait", retry_after=5)
BROKEN_PAGE = ApiError("accounts.media.list", "malformed_page", "no list", status=200)
DENIED = ApiError("accounts.media.list", "api_forbidden", "no grant", status=403)


def seen(*answers: tuple[str, float, ApiError | None]) -> Outage:
    outage = Outage(answered_at=0.0)
    for scope, at, error in answers:
        outage = outage.observe(scope, error, at)
    return outage


def four(error: ApiError | None, at: float = 2.0) -> list[tuple[str, float, ApiError | None]]:
    return [(scope, at, error) for scope in "abcd"]


CASES: dict[str, tuple[list[tuple[str, float, ApiError | None]], bool]] = {
    "four scopes": (four(AWAY), True),
    "for too short a time": (four(AWAY, at=0.5), False),
    "one account alone": ([("a", at, AWAY) for at in (1.0, 2.0, 3.0, 4.0, 5.0)], False),
    "a page in between": ([*four(AWAY)[:3], ("d", 2.0, None), *four(AWAY)[3:]], False),
    "a refusal in between": ([*four(AWAY)[:3], ("d", 2.0, DENIED), *four(AWAY)[3:]], False),
    "a limit that says when": (four(LIMITED), False),
    "pages that cannot be read": (four(BROKEN_PAGE), False),
    "over": ([*four(AWAY), ("e", 3.0, None)], False),
}


@pytest.mark.parametrize(("answers", "is_on"), CASES.values(), ids=CASES)
def test_it_is_on_while_nothing_but_passing_errors_come_back_in_several_scopes(
    answers: list[tuple[str, float, ApiError | None]], *, is_on: bool
) -> None:
    assert seen(*answers).is_on is is_on


def test_the_pauses_grow_to_a_minute_and_what_was_sent_before_does_not_count() -> None:
    outage, pauses = seen(*four(AWAY)), []
    assert outage.observe("e", AWAY, 2.5) == outage
    for _ in range(8):
        pauses.append(outage.pause)
        outage = outage.observe("a", AWAY, outage.next_at)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]

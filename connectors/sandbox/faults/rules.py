"""Rules of scripted faults: what a fault does and which requests it affects, as JSON-compatible data."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

OPERATIONS = {"accounts": "accounts.list", "media": "accounts.media.list", "any": None}


@dataclass(frozen=True, slots=True)
class Action:
    """What a fault does. ``kind`` is one of ``script.ACTIONS``; every other field is used by one kind only.

    code, status
        ``error``: an error code; an unknown code needs a status (default 400).
    retry_after
        ``error``: sent verbatim, so it may be a number of seconds, an HTTP date or invalid text; None: 1 for a 429,
        which always has it (API 7), otherwise absent; False: always absent.
    correlated
        ``error``: False omits X-Correlation-ID and ``error.correlation_id``.
    variant
        ``malformed_account``: what is wrong with the account, one of ``tampering.MALFORMED``.
    seconds
        ``delay``: the delay.
    url
        ``redirect``: the Location.
    size
        ``oversize``: bytes of the body.
    """

    kind: str
    code: str = "api_internal_error"
    status: int | None = None
    retry_after: int | str | Literal[False] | None = None
    correlated: bool = True
    variant: str = "no_id"
    seconds: float = 1.0
    url: str = "https://elsewhere.example/"
    size: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Rule:
    """One scripted fault: an action, and conditions on the requests it affects, all of which must be true.

    operation
        ``accounts``, ``media`` or ``any``.
    account_id, surface
        for the media list only.
    first_page
        True: requests without a cursor; False: requests with one.
    nth, every
        the nth request, or every nth, counted from 1 for each resource (account list, or account x surface).
    probability
        0 to 1; computed from the sandbox's seed and the number of matching requests so far.
    times
        how often the rule may fire in total; None: without a limit.
    """

    action: Action
    operation: Literal["accounts", "media", "any"] = "any"
    account_id: str | None = None
    surface: str | None = None
    first_page: bool | None = None
    nth: int | None = None
    every: int | None = None
    probability: float | None = None
    times: int | None = None

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            message = f"a rule's operation is one of {', '.join(OPERATIONS)}, not {self.operation!r}"
            raise ValueError(message)

    def covers(self, operation: str, account_id: str | None, surface: str | None, number: int, *, first: bool) -> bool:
        """Return whether the conditions, except probability and times, hold for a resource's ``number``-th request."""
        return (
            OPERATIONS[self.operation] in (None, operation)
            and self.account_id in (None, account_id)
            and self.surface in (None, surface)
            and self.first_page in (None, first)
            and self.nth in (None, number)
            and (self.every is None or number % self.every == 0)
        )


def rule_from_json(document: Mapping[str, object]) -> Rule:
    """Return the rule of a JSON object with a Rule's fields; ``action`` is an object, or just its kind.

    Raises ValueError for an unknown field or a missing action.
    """
    given = dict(document)
    action = given.pop("action", None)
    if isinstance(action, str):
        action = {"kind": action}
    if not isinstance(action, dict) or "kind" not in action:
        message = 'a fault needs an action: {"action": {"kind": ...}}'
        raise ValueError(message)
    _known(Action, action)
    _known(Rule, given)
    return Rule(action=Action(**action), **given)  # type: ignore[arg-type]


def _known(kind: type[Action | Rule], given: Mapping[str, object]) -> None:
    unknown = given.keys() - {field.name for field in fields(kind)}
    if unknown:
        message = f"unknown in {kind.__name__.lower()}: {', '.join(sorted(unknown))}"
        raise ValueError(message)

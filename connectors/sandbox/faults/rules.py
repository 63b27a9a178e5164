"""Scripted faults: which requests they fall on, as data that JSON can carry."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

OPERATIONS = {"accounts": "accounts.list", "media": "accounts.media.list", "any": None}


@dataclass(frozen=True, slots=True)
class Action:
    """What a fault does; ``kind`` is a name of ``faults.ACTIONS``, the rest is read by some kinds only.

    code, status
        of ``error``: an error code; an unknown one needs its own status (default 400).
    retry_after
        of ``error``: sent verbatim, so a number of seconds, an HTTP date or nonsense; None: 1 with a 429,
        which always has it (API 7), else absent; False: absent whatever the status.
    correlated
        of ``error``: False leaves out X-Correlation-ID and ``error.correlation_id``.
    variant
        of ``malformed_account``: what is wrong with it, a name of ``tampering.MALFORMED``.
    seconds
        of ``delay``.
    url
        of ``redirect``: its Location.
    size
        of ``oversize``: bytes of body.
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
    """One scripted fault: an action, and the requests it falls on. All conditions given must hold.

    operation
        ``accounts``, ``media`` or ``any``.
    account_id, surface
        of the media list only.
    first_page
        True: requests without a cursor; False: requests with one.
    nth, every
        the nth request, or every nth, counted from 1 for each resource (account list, account x surface).
    probability
        0 to 1, drawn from the sandbox's seed and the number of the candidate.
    times
        how often the rule may fire in all; None: always.
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
        """Tell whether the rule's fixed conditions hold for the ``number``-th request of a resource."""
        return (
            OPERATIONS[self.operation] in (None, operation)
            and self.account_id in (None, account_id)
            and self.surface in (None, surface)
            and self.first_page in (None, first)
            and self.nth in (None, number)
            and (self.every is None or number % self.every == 0)
        )


def rule_from_json(document: Mapping[str, object]) -> Rule:
    """Return the rule a JSON object describes: a Rule's fields, ``action`` an object or a bare kind.

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

"""The fault script: decides which rules fire for a request, and counts them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from connectors.sandbox.data.draw import Draw
from connectors.sandbox.faults.disruptions import DISRUPTIONS
from connectors.sandbox.faults.tampering import MALFORMED, TAMPERINGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from connectors.sandbox.faults.rules import Action, Rule
    from connectors.sandbox.http.exchange import Resource

DELAY = "delay"
FORGET_CURSORS = "forget_cursors"
ACTIONS = frozenset({*DISRUPTIONS, *TAMPERINGS, DELAY, FORGET_CURSORS})

# Without a cursor these have no effect, so they do not fire and do not count.
_NEED_CURSOR = frozenset({"refuse_cursor", "repeat_cursor"})
_TOPIC = 40
_WHOLE = 1 << 64


class FaultScript:
    """The current rules. Requests of a resource are counted from the time the rules were set.

    Every rule that matches fires: delays add up, tamperings are applied in order, and of the rules that replace the
    page only the first has an effect.
    """

    def __init__(self, seed: int, rules: Iterable[Rule] = ()) -> None:
        self._draw = Draw(seed)
        self.rules: tuple[Rule, ...] = ()
        self.fired: Counter[int] = Counter()
        self._candidates: Counter[int] = Counter()
        self._requests: Counter[Resource] = Counter()
        self.replace(rules)

    def replace(self, rules: Iterable[Rule]) -> None:
        """Replace the rules and reset all counts. Raises ValueError for an unknown kind or variant."""
        wanted = tuple(rules)
        for rule in wanted:
            if rule.action.kind not in ACTIONS:
                message = f"unknown fault {rule.action.kind!r}: one of {', '.join(sorted(ACTIONS))}"
                raise ValueError(message)
            if rule.action.variant not in MALFORMED:
                message = f"unknown variant {rule.action.variant!r}: one of {', '.join(MALFORMED)}"
                raise ValueError(message)
        self.rules = wanted
        self.fired = Counter()
        self._candidates = Counter()
        self._requests = Counter()

    def clear(self) -> None:
        """Remove all rules."""
        self.replace(())

    def fire(self, resource: Resource, account_id: str | None, *, first: bool) -> list[Action]:
        """Count a request, and return the actions of the rules that fire for it, in order."""
        self._requests[resource] += 1
        number = self._requests[resource]
        return [
            rule.action
            for index, rule in enumerate(self.rules)
            if rule.covers(resource.operation, account_id, resource.surface, number, first=first)
            and not (first and rule.action.kind in _NEED_CURSOR)
            and self._fires(index, rule)
        ]

    def _fires(self, index: int, rule: Rule) -> bool:
        if rule.times is not None and self.fired[index] >= rule.times:
            return False
        self._candidates[index] += 1
        if rule.probability is not None:
            drawn = self._draw.one(_TOPIC, index, self._candidates[index])
            if drawn >= rule.probability * _WHOLE:
                return False
        self.fired[index] += 1
        return True

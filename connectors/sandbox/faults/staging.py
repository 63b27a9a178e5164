"""Creates replies with faults: applies each action to the correct page."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from connectors.sandbox.faults.disruptions import DISRUPTIONS
from connectors.sandbox.faults.script import DELAY, FORGET_CURSORS
from connectors.sandbox.faults.tampering import TAMPERINGS, Scene, spoil
from connectors.sandbox.http.exchange import Reply, json_reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from connectors.sandbox.faults.rules import Action
    from connectors.sandbox.http.cursors import Position
    from connectors.sandbox.http.exchange import Asked
    from connectors.sandbox.http.pages import Pages, Wanted


def staged(actions: Sequence[Action], asked: Asked, wanted: Wanted, start: Position | None, pages: Pages) -> Reply:
    """Return the reply to a request with these actions applied in order."""
    delay = sum(action.seconds for action in actions if action.kind == DELAY)
    actions = [action for action in actions if action.kind != DELAY]
    if any(action.kind == FORGET_CURSORS for action in actions):
        pages.cursors.forget()
        if asked.cursor is not None:
            actions = [replace(action, kind="refuse_cursor") for action in actions[:1]]
    tampering = [action for action in actions if action.kind in TAMPERINGS]
    limit = wanted.limit
    for action in tampering:
        limit = TAMPERINGS[action.kind].taken(limit)
    wanted = wanted._replace(limit=limit)
    body = pages.page(wanted, start.anchor if start else None)
    for action in tampering:
        body = spoil(body, TAMPERINGS[action.kind], action, _scene(asked, wanted, start, pages))
    reply = json_reply(200, body)
    for action in actions:
        if action.kind in DISRUPTIONS:
            reply = DISRUPTIONS[action.kind](action, asked.correlation_id, body)
            break
    return replace(reply, delay=delay)


def _scene(asked: Asked, wanted: Wanted, start: Position | None, pages: Pages) -> Scene:
    anchor, hop = (start.anchor, start.hop) if start else (None, 0)
    return Scene(
        given=asked.cursor,
        ends_first=pages.first_cursor(wanted),
        again=pages.cursors.issue(wanted.resource, anchor, hop + 1),
        media=wanted.account is not None,
    )

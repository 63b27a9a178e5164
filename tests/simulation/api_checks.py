"""Compares the warehouse with the data of the sandbox, without any knowledge of how scans decide."""

import json
from collections.abc import Collection
from datetime import datetime
from typing import Any

from connectors.sandbox.http.app import Sandbox
from tests.api.faults import TAMPERINGS
from tests.api.server import truth
from tests.model.reading import lasting
from tests.model.recent import LOOKBACK, PINS, RUN, Key
from tests.simulation.events import Event, Partition, RequestSent, instant
from tests.simulation.model import id_of, published
from tests.simulation.protocol_checker import ProtocolChecker, Session, require
from tests.simulation.scenario import Day
from tests.simulation.snapshot_check import Snapshot

_DEPTHS = "SELECT account_id, covered_from FROM freshness WHERE surface = 'posts' AND recent_at IS NOT NULL"


def listed_items(sandbox: Sandbox) -> dict[Key, Any]:
    """Return the items that the API lists today, of accounts whose token has not expired."""
    items = (
        ((account.id, surface), json.loads(text))
        for account, surface, text in truth(sandbox.catalogue, sandbox.day)
        if account.status == "active"
    )
    return {(*partition, str(id_of(item))): lasting(item) for partition, item in items}


def check_against_api(checker: ProtocolChecker, sandbox: Sandbox, snapshot: Snapshot) -> None:
    """Raise Violation unless the warehouse equals the API after a day without faults, except for pending removals.

    Posts below the depth of a recent scan, as stated in `freshness`, may differ.
    """
    model, day = checker.model, sandbox.day
    accounts = {account.id: account.status for account in sandbox.catalogue.accounts(day)}
    present = {one: status for one, status in checker.present().items() if one not in model.accounts.missing}
    require(present == accounts, "the accounts are not those of the API")
    depths: dict[str, datetime | None] = dict(snapshot.rows(_DEPTHS))

    def is_covered(key: Key, at: datetime | None) -> bool:
        depth = depths.get(key[0]) if key[1] == "posts" else None
        return depth is None or (at is not None and at > depth)

    truth = {key: item for key, item in listed_items(sandbox).items() if is_covered(key, published(item))}
    held = {
        key: lasting(row.payload)
        for key, row in model.media.rows.items()
        if row.removed_at is None and accounts.get(key[0]) == "active" and key not in model.media.missing
        if is_covered(key, published(row.payload))
    }
    differing = sorted(key for key in truth.keys() | held.keys() if truth.get(key) != held.get(key))
    require(not differing, f"the media are not those of the API: {differing[:3]}")


def is_undisturbed(day: Day) -> bool:
    """Return whether scans of this day receive unchanged data: no change of day and no tampered pages."""
    return not day.day_changes and not any(rule.action.kind in TAMPERINGS for rule in day.faults)


def check_above_depths(checker: ProtocolChecker, sandbox: Sandbox, closed: Collection[Partition]) -> None:
    """Raise Violation unless the warehouse has every post above the depth of the scans just closed, as listed."""
    truth, model = listed_items(sandbox), checker.model
    for key, item in truth.items():
        if key[:2] not in closed or key[1] != "posts":
            continue
        depth = model.media.closed[key[:2]].covered_from
        at = published(item)
        if depth is None or (at is not None and at > depth):
            row = model.media.rows.get(key)
            require(row is not None and lasting(row.payload) == item, f"{key} of {at} is not as it is listed")
            require(row is not None and row.removed_at is None, f"{key} of {at} is listed, and marked as gone")


def check_request_count(
    day: Day, session: Session, sandbox: Sandbox, recent: Collection[str], log: Collection[Event]
) -> None:
    """Raise Violation if an undisturbed recent scan sent more requests than its known and unknown posts require."""
    if day.faults or day.crash or day.forgets_cursors or day.day_changes:
        return
    truth = listed_items(sandbox)
    for account_id in recent:
        partition = (account_id, "posts")
        requests = [event for event in log if isinstance(event, RequestSent) and event.partition == partition]
        if not requests or requests[0].cursor is not None:
            continue
        since = instant(requests[0].at) - LOOKBACK
        times = {key[2]: published(item) for key, item in truth.items() if key[:2] == partition}
        window = {media_id for media_id, at in times.items() if at is not None and at >= since}
        unknown = len(times.keys() - window - session.known[partition])
        maximum = -(-(2 * PINS + len(window) + (unknown + 1) * (RUN + 1)) // day.page_size) + 1
        # A limit of the key refuses requests, which are sent again.
        pages = len({event.cursor for event in requests})
        require(pages <= maximum, f"{account_id}: {pages} pages requested, and {maximum} are enough")

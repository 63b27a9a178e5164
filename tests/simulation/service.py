"""The warehouse, held against what the service shows: here nothing is known of how scans decide."""

import json
from collections.abc import Collection
from datetime import datetime
from typing import Any

from connectors.sandbox.faults.tampering import TAMPERINGS
from connectors.sandbox.http.app import Sandbox
from models.schema.mapping_built_in import BUILT_IN
from tests.model import reading
from tests.model.reading import lasting
from tests.model.recent import LOOKBACK, PINS, RUN, Key
from tests.simulation.compare import Snapshot
from tests.simulation.events import Event, Partition, Sent, instant
from tests.simulation.model import id_of
from tests.simulation.referee import Referee, Session, require
from tests.simulation.story import Day

_PUBLISHED = next(column for column in BUILT_IN.columns if column.column == "published_at")
_DEPTHS = "SELECT account_id, covered_from FROM freshness WHERE surface = 'posts' AND recent_at IS NOT NULL"


def shown(sandbox: Sandbox) -> dict[Key, Any]:
    """The items that the service lists today, of accounts whose token has not expired."""
    items = (
        ((account.id, surface), json.loads(text))
        for account, surface, text in sandbox.catalogue.truth(sandbox.day)
        if account.status == "active"
    )
    return {(*partition, str(id_of(item))): lasting(item) for partition, item in items}


def published(item: Any) -> datetime | None:  # noqa: ANN401 - any JSON
    """When an item says that it was published."""
    found = reading.canonical(item, _PUBLISHED)
    assert found is None or isinstance(found, datetime)
    return found


def hold_against_the_service(referee: Referee, sandbox: Sandbox, snapshot: Snapshot) -> None:
    """Raise Foul unless a quiet day has left what the service shows, but for what is gone in doubt.

    Posts that are as old as `freshness` says a recent scan did not read may differ.
    """
    model, day = referee.model, sandbox.day
    accounts = {account.id: account.status for account in sandbox.catalogue.accounts(day)}
    present = {one: status for one, status in referee.present().items() if one not in model.accounts.missing}
    require(present == accounts, "the accounts are not those of the service")
    depths: dict[str, datetime | None] = dict(snapshot.rows(_DEPTHS))

    def is_covered(key: Key, at: datetime | None) -> bool:
        depth = depths.get(key[0]) if key[1] == "posts" else None
        return depth is None or (at is not None and at > depth)

    truth = {key: item for key, item in shown(sandbox).items() if is_covered(key, published(item))}
    held = {
        key: lasting(row.payload)
        for key, row in model.media.rows.items()
        if row.removed_at is None and accounts.get(key[0]) == "active" and key not in model.media.missing
        if is_covered(key, published(row.payload))
    }
    differing = sorted(key for key in truth.keys() | held.keys() if truth.get(key) != held.get(key))
    require(not differing, f"the media are not those of the service: {differing[:3]}")


def is_plain(day: Day) -> bool:
    """Whether what a scan of this day receives is what the service lists from its beginning to its end."""
    return not day.turns and not any(rule.action.kind in TAMPERINGS for rule in day.faults)


def hold_above_depths(referee: Referee, sandbox: Sandbox, closed: Collection[Partition]) -> None:
    """Raise Foul unless every post that the service lists above the depth of a scan just closed is there as listed."""
    truth, model = shown(sandbox), referee.model
    for key, item in truth.items():
        if key[:2] not in closed or key[1] != "posts":
            continue
        depth = model.media.closed[key[:2]].covered_from
        at = published(item)
        if depth is None or (at is not None and at > depth):
            row = model.media.rows.get(key)
            require(row is not None and lasting(row.payload) == item, f"{key} of {at} is not as it is listed")
            require(row is not None and row.removed_at is None, f"{key} of {at} is listed, and marked as gone")


def hold_to_its_requests(
    day: Day, session: Session, sandbox: Sandbox, recent: Collection[str], log: Collection[Event]
) -> None:
    """Raise Foul where an undisturbed recent scan took more than pins, window, a run for each unknown post, a page."""
    if day.faults or day.crash or day.forgets_cursors or day.turns:
        return
    truth = shown(sandbox)
    for account_id in recent:
        partition = (account_id, "posts")
        asked = [event for event in log if isinstance(event, Sent) and event.partition == partition]
        if not asked or asked[0].cursor is not None:
            continue
        since = instant(asked[0].at) - LOOKBACK
        times = {key[2]: published(item) for key, item in truth.items() if key[:2] == partition}
        window = {media_id for media_id, at in times.items() if at is not None and at >= since}
        unknown = len(times.keys() - window - session.known[partition])
        most = -(-(2 * PINS + len(window) + (unknown + 1) * (RUN + 1)) // day.page_size) + 1
        require(len(asked) <= most, f"{account_id}: {len(asked)} requests, and {most} are enough")

"""Reads the cooldowns of tenant scopes without blocking a writer or waiting for one."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from connectors.source.endpoints import CATALOGUE_SCOPE, account_scope
from connectors.warehouse.maintenance.inspection import inspect
from connectors.warehouse.snapshot.reader import Snapshot
from connectors.warehouse.storage.errors import WarehouseError
from flows.config.settings import Settings

# A partition is in a cooldown until its last outcome's `resume_after`, unless a later run has scanned it.
_PUBLISHED = """
SELECT account_id, max(resume_after) FROM (
    SELECT o.account_id, arg_max(o.outcome, r.seq) AS outcome, arg_max(o.resume_after, r.seq) AS resume_after
    FROM run_outcomes AS o JOIN runs AS r USING (run_id) GROUP BY o.resource, o.account_id, o.surface
)
WHERE outcome = 'deferred' AND resume_after > $1 GROUP BY account_id
"""


@dataclass(frozen=True, slots=True)
class Cooldowns:
    """The end (UTC) of each tenant scope's cooldown. `as_of`: when the snapshot was published; None: current values."""

    until: Mapping[str, datetime] = field(default_factory=dict)
    as_of: datetime | None = None

    @property
    def caveat(self) -> str:
        """Return a sentence about the age of the cooldowns; empty if they are current."""
        if self.as_of is None:
            return ""
        at = f"{self.as_of:%Y-%m-%d %H:%M} UTC"
        return f" Cooldowns are those of {at}, from the snapshot, because the warehouse cannot be read now."


def read_cooldowns(settings: Settings, activity: str, snapshot: Snapshot | None, *, now: datetime) -> Cooldowns:
    """Read the cooldowns that end after `now` from the warehouse, or if it cannot be read now, from the snapshot."""
    try:
        found = inspect(
            settings.warehouse, activity, now=now, since=now.isoformat(timespec="seconds"), pause=time.sleep
        )
    except WarehouseError:
        # For example, another process is writing to it.
        found = None
    if found is not None:
        return Cooldowns(found.cooldowns)
    if snapshot is None:
        return Cooldowns()
    rows = snapshot.query(_PUBLISHED, [now]).rows
    ((published_at,),) = snapshot.query("SELECT max(snapshot_at) FROM published").rows
    return Cooldowns({account_scope(one) if one else CATALOGUE_SCOPE: until for one, until in rows}, published_at)

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
from flows.reporting.reader import Reader
from flows.reporting.words import moment

_PUBLISHED = """
SELECT account_id, max(resume_after) AS until FROM last_outcomes
WHERE outcome = 'deferred' AND resume_after > getvariable('made_at') GROUP BY account_id
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
        at = moment(self.as_of)
        return f" Cooldowns are those of {at} UTC, from the snapshot, because the warehouse cannot be read now."


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
    reader = Reader(snapshot, now=now)
    until = {each["account_id"]: each["until"] for each in reader.records(_PUBLISHED)}
    scopes = {account_scope(account) if account else CATALOGUE_SCOPE: at for account, at in until.items()}
    return Cooldowns(scopes, reader.published["snapshot_at"])

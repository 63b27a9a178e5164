"""Read-only inspection of the warehouse file by commands, while no run writes it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import duckdb

from connectors.warehouse.ingest.landing.segments import LeftOver
from connectors.warehouse.maintenance.future_times import Ahead, check_clock
from connectors.warehouse.raw.recovery import check_store
from connectors.warehouse.snapshot.ownership import Refusal
from connectors.warehouse.snapshot.publish import publish_refusal
from connectors.warehouse.storage.connection import Connection, explained, session_id
from connectors.warehouse.storage.holder import hold
from connectors.warehouse.storage.schema_number import newest, read_schema_number

_BOUND_TO = "SELECT base_url FROM ops.service"
_COOLDOWNS = "SELECT scope, max(resume_after) FROM ops.cooldowns WHERE resume_after > $1 GROUP BY scope"


@dataclass(frozen=True, slots=True)
class Inspection:
    """Stored times in the future, if any, the service's address, and the end (UTC) of each cooldown.

    `publish_refusal` is why a run would not publish, if that was asked. `is_current` is whether a run could use the
    file as it is; of one that the next run upgrades, only the merged cooldowns are known.
    """

    ahead: Ahead | None = None
    base_url: str | None = None
    cooldowns: Mapping[str, datetime] = field(default_factory=dict)
    publish_refusal: Refusal | None = None
    is_current: bool = False


def _cooldowns(db: duckdb.DuckDBPyConnection, now: datetime) -> dict[str, datetime]:
    return dict(db.execute(_COOLDOWNS, [now]).fetchall())


def _landed_cooldowns(connection: Connection, now: datetime) -> Mapping[str, datetime]:
    """Return the cooldowns, also those that landed in a segment that a killed or stopped process left."""
    found = _cooldowns(connection.db, now)
    for frame in LeftOver(connection.path, session_id(connection)).frames():
        one = frame.commit.cooldown
        if one is not None and one.resume_after > now:
            found[one.scope] = max(one.resume_after, found.get(one.scope, now))
    return found


def inspect(
    path: Path,
    activity: str,
    *,
    now: datetime,
    pause: Callable[[float], None],
    raw: Path | None = None,
    publishing: tuple[Path, Sequence[str]] | None = None,
) -> Inspection:
    """Inspect a warehouse, which need not exist or have tables.

    Left-over segments are checked. With `raw`, the folder of raw stores, every part is compared with its checksum; with
    `publishing`, the snapshot's path and the columns to hide, also whether they can be published.

    Raises WarehouseBusy, and WarehouseUnusable also if this version cannot use the file, if the clock is behind, or if
    a segment or part is missing or damaged.
    """
    if not path.exists():
        return Inspection()
    with (
        hold(path, activity, since=now.isoformat(timespec="seconds"), pause=pause),
        explained(path),
        # Closed after DuckDB's handle: closing any handle of a file releases all locks that the process has on it.
        path.open("rb") as file,
        duckdb.connect(str(path), read_only=True) as db,
    ):
        db.execute("SET TimeZone = 'UTC'")
        if not (number := read_schema_number(db, path)):
            return Inspection()
        # An older warehouse lacks columns; the next sync upgrades it.
        if number < newest():
            return Inspection(cooldowns=_cooldowns(db, now))
        addresses = db.execute(_BOUND_TO).fetchall()
        connection = Connection(db, path, path.parent if raw is None else raw, file)
        address = addresses[0][0] if addresses else None
        cooldowns = _landed_cooldowns(connection, now)
        refused = None if publishing is None else publish_refusal(connection, *publishing)
        found = Inspection(check_clock(db, now), address, cooldowns, refused, is_current=True)
        checks = [] if raw is None else list(check_store(connection))
    # Without the lock, because it takes long for a large store. Parts do not change.
    for check in checks:
        check()
    return found

"""Read-only inspection of the warehouse file by commands, while no run writes it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import duckdb

from connectors.warehouse.maintenance.future_times import Ahead, check_clock
from connectors.warehouse.raw.recovery import check_store
from connectors.warehouse.snapshot.ownership import Refusal
from connectors.warehouse.snapshot.publish import publish_refusal
from connectors.warehouse.storage.connection import Connection, explained, read_identity
from connectors.warehouse.storage.holder import hold
from connectors.warehouse.storage.schema_number import newest, read_schema_number
from models.identity import NEW, Identity

_NONE = Identity(NEW, 0)


@dataclass(frozen=True, slots=True)
class Inspection:
    """Stored times in the future, if any, and which state belongs to the warehouse.

    `publish_refusal` is why a run would not publish, if that was asked. `is_current` is whether a run could use the
    file as it is; an older one is changed by the next run.
    """

    ahead: Ahead | None = None
    identity: Identity = _NONE
    publish_refusal: Refusal | None = None
    is_current: bool = False


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

    With `raw`, the folder of raw stores, every part is compared with its checksum; with
    `publishing`, the snapshot's path and the columns to hide, also whether they can be published.

    Raises WarehouseBusy, and WarehouseUnusable also if this version cannot use the file, if the clock is behind, or if
    a part is missing or damaged.
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
        # An older schema lacks columns; the next sync changes it.
        if number < newest():
            return Inspection()
        connection = Connection(db, path, path.parent if raw is None else raw, file)
        refused = None if publishing is None else publish_refusal(connection, *publishing)
        found = Inspection(check_clock(db, now), read_identity(connection), refused, is_current=True)
        checks = [] if raw is None else list(check_store(connection))
    # Without the lock, because it takes long for a large store. Parts do not change.
    for check in checks:
        check()
    return found

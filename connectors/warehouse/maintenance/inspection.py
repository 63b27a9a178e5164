"""Read-only inspection of the warehouse and its raw store by `gramhouse doctor`, while no run writes them."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import duckdb

from connectors.warehouse.maintenance.clock import find_ahead
from connectors.warehouse.publish.publish import Publication, find_refusal
from connectors.warehouse.raw.parts import find_parts, find_unmerged_parts, read_part
from connectors.warehouse.storage.connection import explained
from connectors.warehouse.storage.holder import hold
from connectors.warehouse.storage.identity import read_warehouse
from connectors.warehouse.storage.schema import read_schema_number, schema_files
from models.clock import Ahead
from models.identity import NEW, Identity

_NONE = Identity(NEW, 0)


@dataclass(frozen=True, slots=True)
class Inspection:
    """Stored times in the future, if any, and which state belongs to the warehouse.

    `is_current` is whether a run could use the file as it is; an older one is changed by the next run. `refused` is
    why its data would not be published.
    """

    ahead: Ahead | None = None
    identity: Identity = _NONE
    is_current: bool = False
    refused: str | None = None


def inspect(
    path: Path,
    raw: Path,
    snapshot: Path,
    publication: Publication,
    *,
    inbox: Collection[int],
    reads_parts: bool,
    now: datetime,
    pause: Callable[[float], None],
) -> Inspection:
    """Inspect a warehouse, which need not exist, and what would become of its data.

    `raw` is the folder of raw stores. If this `reads_parts`, every part is read, so that its checksums are verified.
    `inbox` are the landings that are not merged.

    Raises WarehouseBusy, and WarehouseUnusable also if this version cannot use the file, or if a part is missing or
    damaged.
    """
    if not path.exists():
        return Inspection()
    with (
        hold(path, "gramhouse doctor", since=now.isoformat(timespec="seconds"), pause=pause),
        explained(path),
        duckdb.connect(str(path), read_only=True) as db,
    ):
        db.execute("SET TimeZone = 'UTC'")
        if read_schema_number(db, path) < len(schema_files()):
            return Inspection()
        row = read_warehouse(db)
        refused = find_refusal(db, snapshot, publication)
        found = Inspection(find_ahead(db, now=now), row.identity, is_current=True, refused=refused)
        find_unmerged_parts(raw / row.id, merged_seq=row.merged_seq, raw_seq=row.raw_seq, inbox=inbox)
        parts = find_parts(raw / row.id, merged_seq=row.merged_seq) if reads_parts else ()
    # Without the lock, because it takes long for a large store. Parts do not change.
    for part in parts:
        read_part(part)
    return found

"""The parameters of a run."""

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from models.checkpoint import RunKind
from models.incremental import FULL_REFRESH_EVERY, LOOKBACK_WINDOW, SyncMode
from models.partition import SURFACES, Surface
from models.runs import STALE_AFTER
from models.selection import Selection


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """What outlives its use: `runs`, and records in `quarantine` since they were last met.

    None keeps them for ever.
    """

    runs: timedelta | None = None
    quarantine: timedelta | None = None


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What is asked of a run: everything on `surfaces`, or a backfill's `selection`, and why.

    `within` bounds how old an interrupted run may be to be resumed. With `accept_removals` a person confirms that
    the accounts missing from this run's catalogue are gone; with `rebind`, that another service's address is right.
    `report` is the HTML report that is renewed once the snapshot is published.

    A sync of `mode` incremental scans posts down to what is known and older than `lookback`, and in full every
    `full_refresh_every`; such full scans take `full_refresh_budget` requests a run at most. A backfill is always full.
    After `max_requests` requests a sync defers what is left.
    """

    snapshot: Path
    within: timedelta
    version: str
    surfaces: tuple[Surface, ...] = SURFACES
    selection: Selection | None = None
    reason: str | None = None
    accept_removals: bool = False
    rebind: bool = False
    keeping: RetentionSettings = field(default_factory=RetentionSettings)
    stale_after: timedelta = STALE_AFTER
    report: Path | None = None
    mode: SyncMode = "full_refresh"
    lookback: timedelta = LOOKBACK_WINDOW
    full_refresh_every: timedelta = FULL_REFRESH_EVERY
    full_refresh_budget: int | None = None
    max_requests: int | None = None

    @property
    def kind(self) -> RunKind:
        """Return the kind of run, which also selects its checkpoints."""
        return "sync" if self.selection is None else "backfill"

    @property
    def selected(self) -> str | None:
        """Say what is scanned; None is everything."""
        if self.selection is not None:
            return str(self.selection)
        return None if self.surfaces == SURFACES else " and ".join(self.surfaces)

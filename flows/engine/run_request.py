"""The parameters of a run."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from flows.reporting.schedules import Schedule
from models.checkpoint import RunKind
from models.feeds import SURFACES
from models.incremental import FULL_REFRESH_EVERY, LOOKBACK_WINDOW, SyncMode
from models.mapping import BUILT_IN, Mapping
from models.runs import STALE_AFTER
from models.selection import Selection


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a run scans: everything on `surfaces`, or a backfill's `selection`, with a `reason`.

    `within` is the maximum age of an interrupted run that is resumed. With `accept_removals` the user confirms that
    the accounts missing from this run's catalogue are removed; with `rebind`, that the other service's address is
    right. Without `keep_runs` no old run is deleted. `report` is the HTML report that each publication renews.

    A sync with `mode` incremental scans posts down to known ones older than `lookback`, and in full every
    `full_refresh_every`; these full scans take at most `full_refresh_budget` requests per run. A backfill is always
    full. After `max_requests` requests a sync defers the rest. `schedule` is the one of such syncs. The
    snapshot is published without the columns to `hide`.

    `base_url` is the service's address, as normalized by `connectors.source.base_url.normalized`; None: the warehouse
    is not bound to a service. `max_wait` is the time in seconds that a run waits for cooldowns of a rate-limit scope.
    `mapping` says how media are read, unless stored rows were read differently.
    """

    snapshot: Path
    within: timedelta
    version: str
    surfaces: tuple[str, ...] = SURFACES
    selection: Selection | None = None
    reason: str | None = None
    accept_removals: bool = False
    rebind: bool = False
    keep_runs: timedelta | None = None
    stale_after: timedelta = STALE_AFTER
    report: Path | None = None
    mode: SyncMode = "full_refresh"
    lookback: timedelta = LOOKBACK_WINDOW
    full_refresh_every: timedelta = FULL_REFRESH_EVERY
    full_refresh_budget: int | None = None
    max_requests: int | None = None
    schedule: Schedule | None = None
    hide: tuple[str, ...] = ()
    base_url: str | None = None
    page_size: int = 50
    max_wait: float = 3600.0
    scan_expired: bool = False
    mapping: Mapping = BUILT_IN

    @property
    def kind(self) -> RunKind:
        """Return the kind of run, which also selects its checkpoints."""
        return "sync" if self.selection is None else "backfill"

    @property
    def selected(self) -> str | None:
        """Return what is scanned, as text; None is everything."""
        if self.selection is not None:
            return str(self.selection)
        return None if self.surfaces == SURFACES else " and ".join(self.surfaces)

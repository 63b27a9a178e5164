"""What a run was asked for: the settings, and the options of a sync or a backfill."""

from dataclasses import dataclass, field
from datetime import timedelta

from connectors.source.base_url import normalized
from flows.config.options import BackfillOptions, SyncOptions, in_order
from flows.config.setting_sources import PREFIX
from flows.config.settings import Settings
from flows.reporting.schedules import Schedule
from models.checkpoint import RunKind
from models.feeds import LIFETIMES, SURFACES
from models.incremental import SyncMode
from models.selection import Selection


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A sync, or a backfill, with these settings."""

    settings: Settings
    options: SyncOptions | BackfillOptions = field(default_factory=SyncOptions)

    @property
    def kind(self) -> RunKind:
        """Return the kind of run, which also selects its checkpoints."""
        return "backfill" if isinstance(self.options, BackfillOptions) else "sync"

    @property
    def surfaces(self) -> tuple[str, ...]:
        """Return the surfaces to scan, in the order in which they are scanned."""
        return in_order(self.options.surfaces)

    @property
    def selection(self) -> Selection | None:
        """Return what a backfill scans; None for a sync. Raises SelectionError if it selects nothing."""
        return self.options.selection() if isinstance(self.options, BackfillOptions) else None

    @property
    def selected(self) -> str | None:
        """Return what is scanned, as text; None is everything."""
        if (selection := self.selection) is not None:
            return str(selection)
        return None if self.surfaces == SURFACES else " and ".join(self.surfaces)

    @property
    def mode(self) -> SyncMode:
        """Return how deep posts are scanned; a backfill scans to the last page."""
        return (
            "full_refresh"
            if isinstance(self.options, BackfillOptions)
            else self.options.mode or self.settings.sync_mode
        )

    @property
    def reason(self) -> str | None:
        """Return why a backfill was asked for."""
        return self.options.reason if isinstance(self.options, BackfillOptions) else None

    @property
    def accept_removals(self) -> bool:
        """Return whether a person confirms that what is missing now is removed."""
        return isinstance(self.options, SyncOptions) and self.options.accept_removals

    @property
    def rebind(self) -> bool:
        """Return whether a person confirms that the address of another service is right."""
        return isinstance(self.options, SyncOptions) and self.options.rebind

    @property
    def max_requests(self) -> int | None:
        """Return the number of requests after which a sync defers the rest; None: no limit."""
        return None if isinstance(self.options, BackfillOptions) else self.options.max_requests

    @property
    def schedule(self) -> Schedule | None:
        """Return the schedule of such syncs; a backfill has none."""
        if isinstance(self.options, BackfillOptions):
            return None
        name = "stories" if self.surfaces == tuple(LIFETIMES) else "nightly"
        return Schedule(f"{PREFIX}{name.upper()}", getattr(self.settings, name), self.settings.time_zone)

    @property
    def base_url(self) -> str | None:
        """Return the service's address in one spelling; None: the warehouse is not bound to a service."""
        return None if self.settings.base_url is None else normalized(self.settings.base_url)

    @property
    def within(self) -> timedelta:
        """Return the maximum age of an interrupted run that is resumed."""
        return timedelta(seconds=self.settings.resume_within)

    @property
    def lookback(self) -> timedelta:
        """Return the age up to which an incremental sync fetches posts again."""
        return timedelta(days=self.settings.lookback_window)

    @property
    def full_refresh_every(self) -> timedelta:
        """Return the time after which an incremental sync scans all posts of an account again."""
        return timedelta(days=self.settings.full_refresh_every)

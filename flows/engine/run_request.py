"""What a run was asked for: the settings, and the options of a sync or a backfill."""

from dataclasses import dataclass, field
from datetime import timedelta

from flows.config.options import BackfillOptions, SyncOptions, in_order
from flows.config.settings import Settings
from models.feeds import SURFACES


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A sync, or a backfill, with these settings. What follows from both is here, in the types that runs use."""

    settings: Settings
    options: SyncOptions | BackfillOptions = field(default_factory=SyncOptions)

    @property
    def surfaces(self) -> tuple[str, ...]:
        """Return the surfaces to scan, in the order in which they are scanned."""
        return in_order(self.options.surfaces)

    @property
    def selected(self) -> str | None:
        """Return what is scanned, as text; None is everything. Raises SelectionError if a backfill selects nothing."""
        if (selection := self.options.selection()) is not None:
            return str(selection)
        return None if self.surfaces == SURFACES else " and ".join(self.surfaces)

    @property
    def within(self) -> timedelta:
        """Return the maximum age of an interrupted run that is resumed."""
        return timedelta(seconds=self.settings.resume_within)

    @property
    def lookback(self) -> timedelta:
        """Return the age up to which an incremental sync fetches posts again."""
        return timedelta(days=self.settings.lookback_window)

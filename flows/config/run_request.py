"""What a run was asked for: the settings, and the options of a sync or a backfill."""

from dataclasses import dataclass, field
from datetime import timedelta

from flows.config.options import BackfillOptions, SyncOptions, in_order
from flows.config.settings import Settings
from models.feeds import FEEDS, SURFACES
from models.selection import Selection


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
        surfaces = "" if self.surfaces == SURFACES else " and ".join(self.surfaces)
        return f"{'due ' if self.options.due else ''}{surfaces}".strip() or None

    @property
    def selection(self) -> Selection:
        """Return which known accounts are scanned; a sync scans all. Raises SelectionError as `selected` does."""
        return self.options.selection() or Selection(everything=True, surfaces=self.surfaces)

    def limit(self, made: int = 0) -> int | None:
        """Return the most requests of a run, after so many in the last day; None without a limit.

        Those of a backfill are counted for the syncs of that time, but not limited.
        """
        per_day = None if self.options.kind == "backfill" else self.settings.requests_per_day
        limits = self.options.max_requests, None if per_day is None else max(per_day - made, 0)
        return min((each for each in limits if each is not None), default=None)

    @property
    def within(self) -> timedelta:
        """Return the maximum age of an interrupted run that is resumed."""
        return timedelta(seconds=self.settings.resume_within)

    @property
    def lookback(self) -> timedelta:
        """Return the age up to which an incremental sync fetches posts again."""
        return timedelta(days=self.settings.lookback_window)

    def full_refresh_every(self, surface: str) -> timedelta | None:
        """Return how often a scan of a feed is full, if it might stop at known items; None: all are full."""
        is_full = (self.options.mode or self.settings.sync_mode) == "full_refresh"
        feed = FEEDS.get(surface)
        if is_full or feed is None or not feed.may_be_ordered:
            return None
        return timedelta(days=self.settings.full_refresh_every)

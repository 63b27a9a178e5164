"""The times of the schedules, and the longest time between two scans of feeds whose items expire."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim

from flows.reporting.words import span
from models.feeds import LIFETIMES

# The periods in which gaps are looked for: five weeks, to include monthly schedules, and two days before and after each
# clock change in the coming year.
_COMING = timedelta(weeks=5)
_AROUND = timedelta(days=2)
_DAYS_OF_A_YEAR = 366


def fires(expression: str, time_zone: str, after: datetime) -> Iterator[datetime]:
    """Yield the times at which a schedule fires, in its time zone, beginning with the first one after `after`."""
    return CronSim(expression, after.astimezone(ZoneInfo(time_zone)))


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule: the setting that it comes from, its cron expression, and its time zone."""

    setting: str
    expression: str
    time_zone: str

    def interval(self, after: datetime) -> timedelta:
        """Return the time between the first two runs after a time."""
        first, second = islice(fires(self.expression, self.time_zone, after), 2)
        return second - first


def _spans(time_zone: str, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    yield now, now + _COMING
    days = [(now + timedelta(days=day)).astimezone(ZoneInfo(time_zone)) for day in range(_DAYS_OF_A_YEAR)]
    for before, after in pairwise(days):
        if before.utcoffset() != after.utcoffset():
            yield before.astimezone(UTC) - _AROUND, after.astimezone(UTC) + _AROUND


def stories_gap(nightly: str, stories: str, time_zone: str, now: datetime) -> timedelta:
    """Return the longest time between two scans of feeds whose items expire, which both schedules scan."""
    gaps = []
    for begin, end in _spans(time_zone, now.astimezone(UTC)):
        # In UTC: a difference of local times would ignore the hour that clocks skip or repeat.
        seen = {
            at.astimezone(UTC)
            for expression in (nightly, stories)
            for at in takewhile(lambda at, end=end: at <= end, fires(expression, time_zone, begin))  # type: ignore[misc]
        }
        gaps += [later - earlier for earlier, later in pairwise([begin, *sorted(seen), end])]
    return max(gaps)


def gap_warning(nightly: str, stories: str, time_zone: str, now: datetime) -> str | None:
    """Return a warning, with the fix, if items can expire unseen between two runs; otherwise None."""
    gap = stories_gap(nightly, stories, time_zone, now)
    names, lifetime = " and ".join(LIFETIMES), min(LIFETIMES.values())
    if gap <= lifetime:
        return None
    hours = lifetime / timedelta(hours=1)
    return (
        f"{names} expire after {hours:g} h, and no run scans them for up to {span(gap.total_seconds())}."
        " Fix: set GRAMHOUSE_STORIES to run more often, such as 15 */6 * * *."
    )

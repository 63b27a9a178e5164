"""The times of the schedules, and the longest time between two scans of feeds whose items expire."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim

from flows.reporting.words import span
from models.feeds import LIFETIMES

# Gaps are looked for in a year, which includes clock changes, or in this many runs of both schedules.
_YEAR = timedelta(days=366)
_MOST = 20_000


def fires(expression: str, time_zone: str, after: datetime) -> Iterator[datetime]:
    """Yield the times at which a schedule fires, in its time zone, beginning with the first one after `after`."""
    return CronSim(expression, after.astimezone(ZoneInfo(time_zone)))


def gap_warning(nightly: str, stories: str, time_zone: str, now: datetime) -> str | None:
    """Return a warning, with the fix, if items can expire unseen between two runs of any schedule; otherwise None."""
    begin = now.astimezone(UTC)
    both = ((at.astimezone(UTC) for at in fires(each, time_zone, now)) for each in (nightly, stories))
    runs = list(islice(takewhile(lambda at: at <= begin + _YEAR, merge(*both)), _MOST))
    end = runs[-1] if len(runs) == _MOST else begin + _YEAR
    gap = max(later - earlier for earlier, later in pairwise([begin, *runs, end]))
    lifetime = min(LIFETIMES.values())
    if gap <= lifetime:
        return None
    return (
        f"{' and '.join(LIFETIMES)} expire after {lifetime / timedelta(hours=1):g} h, and no run scans them for up to"
        f" {span(gap.total_seconds())}. Fix: set GRAMHOUSE_STORIES to run more often, such as 15 */6 * * *."
    )

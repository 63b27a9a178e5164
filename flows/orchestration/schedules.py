"""What runs by itself, and when: the plans of `gramhouse up` as data, and the reckoning with cron."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from flows.reporting.words import span

# How long a story lives: syncs that are further apart miss some stories.
STORY_LIFE = timedelta(hours=24)

# Long enough for a month's rhythm to show; and around every change of the clocks in the year to come.
_COMING = timedelta(weeks=5)
_AROUND = timedelta(days=2)
_DAYS_OF_A_YEAR = 366

_NAMES = re.compile(r"JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC|SUN|MON|TUE|WED|THU|FRI|SAT", re.IGNORECASE)
_SIGNS = re.compile(r"[\d*,/-]+")
_FIELDS = 5

# The serving process logs this line when it is ready; the process that started it waits for it.
READY = "gramhouse is serving its deployments"

# Where Prefect's server, started by `up`, shows the HTML report.
REPORT_PATH = "/gramhouse/report"

# Runs that are due together wait for each other, so long at most (seconds).
PATIENCE = 6 * 3600

# What its lines begin with that a person should read at once.
NOTE = "! "


@dataclass(frozen=True, slots=True)
class Plan:
    """One thing that `up` serves. `flow` is module:name, `when` the setting that holds its cron expression.

    `options` are its runs' options, but for those that the settings decide. `covers` names plans whose work this
    one does along with its own.
    """

    name: str
    flow: str
    description: str
    when: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    covers: frozenset[str] = frozenset()

    def run_options(self, busy_wait: float) -> dict[str, Any]:
        """Return the options of its runs, which wait so long for the lock (seconds)."""
        wait = {"busy_wait": busy_wait}
        # Publishing has this option alone.
        return wait if self.name == "publish" else {**self.options, "expert": wait}


PLANS = (
    Plan(
        "nightly",
        "flows.sync:sync",
        "Syncs everything the API key can see into the warehouse and publishes a snapshot.",
        when="nightly",
        covers=frozenset({"stories"}),
    ),
    Plan(
        "stories",
        "flows.sync:sync",
        "Scans stories only. They expire after 24 hours, so this runs several times a day.",
        when="stories",
        options={"surfaces": ["stories"]},
    ),
    Plan(
        "backfill",
        "flows.backfill:backfill",
        "Scans the partitions you choose again from their first page. Runs on request.",
    ),
    Plan(
        "publish",
        "flows.publish:publish",
        "Merges landed pages and publishes a new snapshot, without API requests. Runs on request.",
    ),
)


def check_cron(expression: str) -> str:
    """Return a cron expression of five fields as it came; ValueError where it is none.

    Seconds, `L` and `#` are refused: programs read them differently, and Prefect's must agree with ours.
    """
    fields = expression.split()
    plain = all(_SIGNS.fullmatch(_NAMES.sub("0", found)) for found in fields)
    try:
        usable = plain and len(fields) == _FIELDS and next(CronSim(expression, datetime.now(UTC)), None) is not None
    except CronSimError:
        usable = False
    if not usable:
        message = "it is not a valid cron expression; use five fields, such as 15 2 * * *"
        raise ValueError(message)
    return expression


def fires(expression: str, time_zone: str, after: datetime) -> Iterator[datetime]:
    """Yield when a schedule fires, from the first time after an instant, in its time zone."""
    return CronSim(expression, after.astimezone(ZoneInfo(time_zone)))


def _spans(time_zone: str, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    yield now, now + _COMING
    days = [(now + timedelta(days=day)).astimezone(ZoneInfo(time_zone)) for day in range(_DAYS_OF_A_YEAR)]
    for before, after in pairwise(days):
        if before.utcoffset() != after.utcoffset():
            yield before.astimezone(UTC) - _AROUND, after.astimezone(UTC) + _AROUND


def stories_gap(nightly: str, stories: str, time_zone: str, now: datetime) -> timedelta:
    """Return the longest time between two scans of the stories, which both schedules scan."""
    gaps = []
    for begin, end in _spans(time_zone, now.astimezone(UTC)):
        # In UTC, for a difference of local times would not know of the hour that the clocks skip or repeat.
        seen = {
            at.astimezone(UTC)
            for expression in (nightly, stories)
            for at in takewhile(lambda at, end=end: at <= end, fires(expression, time_zone, begin))  # type: ignore[misc]
        }
        gaps += [later - earlier for earlier, later in pairwise([begin, *sorted(seen), end])]
    return max(gaps)


def gap_warning(nightly: str, stories: str, time_zone: str, now: datetime) -> str | None:
    """Say that stories can come and go unseen between two runs, with the fix; None when they cannot."""
    gap = stories_gap(nightly, stories, time_zone, now)
    if gap <= STORY_LIFE:
        return None
    return (
        f"stories expire after 24 h, and no run scans them for up to {span(gap.total_seconds())}."
        " Fix: set GRAMHOUSE_STORIES to run more often, such as 15 */6 * * *."
    )

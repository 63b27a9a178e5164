"""The plans of `gramhouse up` as data, and calculations with cron expressions."""

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

# The periods in which gaps are looked for: five weeks, to include monthly schedules, and two days before and after each
# clock change in the coming year.
_COMING = timedelta(weeks=5)
_AROUND = timedelta(days=2)
_DAYS_OF_A_YEAR = 366

_NAMES = re.compile(r"JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC|SUN|MON|TUE|WED|THU|FRI|SAT", re.IGNORECASE)
_SIGNS = re.compile(r"[\d*,/-]+")
_FIELDS = 5

# The serving process logs this line when it is ready; the process that started it waits for it.
READY = "gramhouse is serving its deployments"

# The path at which the Prefect server of `up` shows the HTML report.
REPORT_PATH = "/gramhouse/report"

# How long runs that are due at the same time wait for each other, in seconds.
PATIENCE = 6 * 3600

# The prefix of lines of the serving process that `up` shows to the user.
NOTE = "! "


@dataclass(frozen=True, slots=True)
class Plan:
    """A deployment that `up` serves. `flow` is module:name, `when` is the setting with its cron expression.

    `options` are the options of its runs, except for those that depend on the settings. `covers` are the names of plans
    that a run of this plan makes unnecessary.
    """

    name: str
    flow: str
    description: str
    when: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    covers: frozenset[str] = frozenset()

    def run_options(self, busy_wait: float) -> dict[str, Any]:
        """Return the options of its runs, which wait `busy_wait` seconds for the lock."""
        wait = {"busy_wait": busy_wait}
        # Publishing has only this option.
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
    """Return a cron expression of five fields unchanged. Raises ValueError if it is invalid.

    Seconds, `L` and `#` are rejected: implementations differ there, and Prefect's must agree with ours.
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
    """Yield the times at which a schedule fires, in its time zone, beginning with the first one after `after`."""
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
        # In UTC: a difference of local times would ignore the hour that clocks skip or repeat.
        seen = {
            at.astimezone(UTC)
            for expression in (nightly, stories)
            for at in takewhile(lambda at, end=end: at <= end, fires(expression, time_zone, begin))  # type: ignore[misc]
        }
        gaps += [later - earlier for earlier, later in pairwise([begin, *sorted(seen), end])]
    return max(gaps)


def gap_warning(nightly: str, stories: str, time_zone: str, now: datetime) -> str | None:
    """Return a warning, with the fix, if stories can expire unseen between two runs; otherwise None."""
    gap = stories_gap(nightly, stories, time_zone, now)
    if gap <= STORY_LIFE:
        return None
    return (
        f"stories expire after 24 h, and no run scans them for up to {span(gap.total_seconds())}."
        " Fix: set GRAMHOUSE_STORIES to run more often, such as 15 */6 * * *."
    )

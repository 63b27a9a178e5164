"""The plans of `gramhouse up` as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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

"""Which runs are retried after an outage, and when. Prefect and the command line use the same schedule."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from connectors.source.errors import rule_of
from flows.reporting.run_report import RunReport
from flows.reporting.words import plain
from models.runs import OutcomeKind
from models.selection import NothingChosen

# Seconds before the first, second and third retry; further retries wait as long as the third.
DELAYS = (300.0, 900.0, 3600.0)

# Upward only, so that many installations do not return to a recovering service at the same moment.
_JITTER = 0.1


class Retry(NamedTuple):
    """One more attempt at a run: the `number`-th of `limit`, after `seconds`, and the error that it is made for."""

    number: int
    limit: int
    seconds: float
    reason: str

    def __str__(self) -> str:
        return f"Retry {self.number} of {self.limit} in {round(self.seconds / 60)} min ({self.reason})"


def next_retry(report: RunReport, made: int, limit: int, random: Callable[[], float]) -> Retry | None:
    """Return the next retry after an attempt, or None. `made` of `limit` retries have been made.

    A run is retried if no error stopped it, and the account catalogue, or more than half of the scans, failed for a
    passing reason. `random` returns a number from 0 to 1.
    """
    failed = [
        each for each in report.failure_groups
        if each.outcome is OutcomeKind.FAILED and rule_of(each.error_code).is_transient
    ]  # fmt: skip
    scans = report.outcomes.total() - report.outcomes[OutcomeKind.SKIPPED]
    if 2 * sum(each.scans for each in failed) <= scans:
        failed = [each for each in failed if each.is_catalogue]
    if made >= limit or report.stopped_by is not None or not failed:
        return None
    delay = DELAYS[min(made, len(DELAYS) - 1)]
    return Retry(made + 1, limit, delay * (1 + _JITTER * random()), plain(failed[0].error_code))


async def repeat(
    attempt: Callable[[], Awaitable[RunReport]],
    limit: int,
    *,
    sleep: Callable[[float], Awaitable[None]],
    random: Callable[[], float],
    announce: Callable[[RunReport, Retry | None], Awaitable[None]],
) -> RunReport:
    """Make a run and up to `limit` retries of it; return the last report.

    `announce` is called after each attempt, with the retry that follows, if any. Raises what an attempt raises, but if
    nothing is due for a retry: what failed is due after an hour, and the run has failed until then.
    """
    made, report = 0, None
    while True:
        try:
            report = await attempt()
        except NothingChosen:
            if report is None:
                raise
        retry = next_retry(report, made, limit, random)
        await announce(report, retry)
        if retry is None:
            return report
        await sleep(retry.seconds)
        made += 1

"""The part of `gramhouse status` about incremental scans: ages of recent and full ones, overdue full scans, gaps."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from connectors.warehouse.snapshot.reader import Snapshot
from flows.cli.output.terminal import DONE, FAIL, WARN, clean
from flows.reporting.words import count, moment, span
from models.incremental import OVERDUE

# The number of accounts named on a line, and of lines of gaps; --json has all of them.
_NAMED = 5

# For accounts with recent scans after a full one: the greatest ages, in seconds, of both kinds of scans.
_RECENT = """
SELECT
    surface, count(*) AS accounts, epoch($1::TIMESTAMPTZ) - epoch(min(recent_at)) AS recent,
    epoch($1::TIMESTAMPTZ) - epoch(min(complete_at)) AS complete
FROM freshness WHERE recent_at IS NOT NULL AND stale_at IS NOT NULL GROUP BY surface ORDER BY surface
"""

# Accounts whose full scans a budget has deferred for too long.
_FULL_OVERDUE = f"""
SELECT f.account_id, f.ig_username, f.complete_at
FROM freshness AS f CROSS JOIN published AS p
WHERE f.recent_at IS NOT NULL AND f.stale_at IS NOT NULL
  AND f.complete_at < $1::TIMESTAMPTZ - to_seconds({OVERDUE} * p.full_refresh_every)
ORDER BY f.complete_at, f.ig_username
"""  # noqa: S608 - a constant

_GAPS = "SELECT g.*, a.ig_username FROM gaps AS g LEFT JOIN accounts AS a USING (account_id) ORDER BY since, surface"


def incremental(snapshot: Snapshot, now: datetime) -> dict[str, list[dict[str, Any]]]:
    """Read `recent`, `full_overdue` and `gaps`, as of `now`."""
    # Snapshots of older versions do not have recent scans.
    knows = snapshot.has("gaps")
    return {
        "recent": snapshot.query(_RECENT, [now]).records() if knows else [],
        "full_overdue": snapshot.query(_FULL_OVERDUE, [now]).records() if knows else [],
        "gaps": snapshot.query(_GAPS).records() if knows else [],
    }


def incremental_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of text for the result of `incremental`."""
    yield from map(_recent_line, found["recent"])
    if found["full_overdue"]:
        yield _full_overdue_line(found["full_overdue"])
    if found["recent"]:
        # If every scan is full, the outcomes already show which partitions are out of date.
        yield from _gap_lines(found["gaps"])


def _recent_line(recent: Mapping[str, Any]) -> str:
    return (
        f"{DONE} {clean(recent['surface'])} of {count(recent['accounts'], 'account')}: oldest recent scan"
        f" {span(recent['recent'])} ago, oldest full scan {span(recent['complete'])} ago"
    )


def _full_overdue_line(overdue: Sequence[Mapping[str, Any]]) -> str:
    names = ", ".join(clean(each["ig_username"]) for each in overdue[:_NAMED])
    more = f" and {len(overdue) - _NAMED:,} more" if len(overdue) > _NAMED else ""
    return (
        f"{FAIL} full_overdue: the last full scan of {names}{more} was {moment(overdue[0]['complete_at'])} UTC or"
        " later, more than twice GRAMHOUSE_FULL_REFRESH_EVERY ago. Fix: increase GRAMHOUSE_FULL_REFRESH_BUDGET."
    )


def _gap_lines(gaps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for gap in gaps[:_NAMED]:
        known = f" and {moment(gap['known_from'])}" if gap["known_from"] else ""
        read = f": posts between {moment(gap['read_down_to'])}{known} UTC may be missing" if gap["read_down_to"] else ""
        name = clean(gap["ig_username"] or gap["account_id"])
        yield (
            f"{WARN} gap in {clean(gap['surface'])} of {name} ({clean(gap['reason'])}), since {moment(gap['since'])}"
            f" UTC{read}. The next scan continues there."
        )
    if len(gaps) > _NAMED:
        yield f"{WARN} and {len(gaps) - _NAMED:,} more gaps: see `gramhouse query 'FROM gaps'`"

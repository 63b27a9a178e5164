"""`gramhouse status`: how things stand, read from the snapshot, so that no writer is ever in the way."""

from collections.abc import Iterator
from typing import Any

from connectors.warehouse.errors import SnapshotMissing
from connectors.warehouse.holder import holder
from connectors.warehouse.snapshot import Snapshot, open_snapshot
from flows.cli.options import AsJson, SnapshotFile, WarehouseFile
from flows.cli.terminal import DONE, FAIL, WARN, clean, moment, out, print_json
from flows.settings import load
from flows.summary_queries import WARNINGS
from flows.words import count

_MARKS = {"complete": DONE, "failed": FAIL}

_LAST_RUN = "SELECT * FROM runs WHERE kind IN ('sync', 'backfill') ORDER BY started_at DESC LIMIT 1"

# A surface is behind where its last complete walk is older than the last sync that was to walk it, or than the first
# of those it carries on: what they completed is its own work.
_FRESHNESS = """
WITH RECURSIVE last AS (
    SELECT s.surface, arg_max(r.run_id, r.started_at) AS run_id
    FROM runs AS r, (VALUES ('posts'), ('stories')) AS s(surface)
    WHERE r.kind = 'sync' AND (r.selection IS NULL OR contains(r.selection, s.surface))
    GROUP BY s.surface
),
chain AS (
    SELECT l.surface, r.started_at, r.carries_on FROM last AS l JOIN runs AS r USING (run_id)
    UNION
    SELECT c.surface, r.started_at, r.carries_on FROM chain AS c JOIN runs AS r ON r.run_id = c.carries_on
),
synced AS (
    SELECT surface, min(started_at) AS started_at FROM chain GROUP BY surface
)
SELECT
    f.surface, count(*) AS accounts, min(f.complete_at) AS oldest,
    count(*) FILTER (f.complete_at IS NULL) AS never,
    count(*) FILTER (f.complete_at < r.started_at) AS behind
FROM freshness AS f LEFT JOIN synced AS r USING (surface)
WHERE f.outcome <> 'skipped'
GROUP BY f.surface ORDER BY f.surface
"""

# What became of each walk when it was last tried, by whichever run.
_TROUBLE = """
WITH last_tried AS (
    SELECT o.account_id, o.surface, unnest(arg_max({
        'outcome': o.outcome, 'error_code': o.error_code, 'detail': o.detail,
        'correlation_id': o.correlation_id, 'resume_after': o.resume_after
    }, o.ended_at))
    FROM run_outcomes AS o GROUP BY o.resource, o.account_id, o.surface
)
SELECT o.outcome, coalesce(o.error_code, '') AS error_code, count(*) AS walks,
       count(DISTINCT o.account_id) AS accounts, max(o.resume_after) AS resume_after,
       arg_min_null(o.detail, (o.account_id, o.surface)) AS detail,
       arg_min_null(o.correlation_id, (o.account_id, o.surface)) AS correlation_id
FROM last_tried AS o LEFT JOIN accounts AS a USING (account_id)
WHERE a.removed_at IS NULL AND o.outcome NOT IN ('complete', 'skipped')
GROUP BY ALL ORDER BY walks DESC
"""

_TOTALS = """
WITH present AS (
    SELECT m.surface FROM media AS m JOIN accounts AS a USING (account_id)
    WHERE m.removed_at IS NULL AND a.removed_at IS NULL
)
SELECT
    (SELECT count(*) FROM accounts WHERE removed_at IS NULL) AS accounts,
    (SELECT count(*) FROM expired_accounts) AS expired,
    (SELECT count(*) FROM present WHERE surface = 'posts') AS posts,
    (SELECT count(*) FROM present WHERE surface = 'stories') AS stories,
    (SELECT count(*) FROM quarantine) AS quarantined,
    (SELECT max(published_at) FROM published) AS published_at
"""


def _gather(snapshot: Snapshot) -> dict[str, Any]:
    last = snapshot.ask(_LAST_RUN).records()
    has_warnings = bool(last) and snapshot.has("run_warnings")
    return {
        "totals": snapshot.ask(_TOTALS).records()[0],
        "last_run": last[0] if last else None,
        "warnings": snapshot.ask(WARNINGS, [last[0]["run_id"]]).records() if has_warnings else [],
        "freshness": snapshot.ask(_FRESHNESS).records(),
        "trouble": snapshot.ask(_TROUBLE).records(),
    }


def _last_run(run: dict[str, Any]) -> str:
    why = f" ({clean(run['error_code'])}: {clean(run['detail'])})" if run["error_code"] else ""
    numbers = (
        count(run["accounts"] or 0, "account"),
        count(run["pages"] or 0, "page"),
        f"{run['added'] or 0:,} new",
        f"{run['changed'] or 0:,} changed",
    )
    mark = _MARKS.get(run["state"], WARN)
    began = moment(run["started_at"])
    what = f" of {run['selection']}" if run["selection"] else ""
    state = f"[bold]{clean(run['state'])}[/]{why}"
    return f"{mark} last {clean(run['kind'] + what)} {state}, begun {began} UTC: {', '.join(numbers)}"


def _fresh(fact: dict[str, Any]) -> str:
    held_up = fact["never"] + fact["behind"]
    accounts = count(fact["accounts"], "account")
    surface = clean(fact["surface"])
    if not held_up:
        return f"{DONE} {surface} of {accounts} are as of the last sync"
    oldest = f"the oldest complete walk ended {moment(fact['oldest'])} UTC" if fact["oldest"] else "none is complete"
    never = f", {fact['never']:,} never walked to the end" if fact["never"] else ""
    return f"{WARN} {surface} of {held_up:,} of {accounts} are older than the last sync{never}; {oldest}"


def _trouble(trouble: dict[str, Any]) -> str:
    mark = FAIL if trouble["outcome"] == "failed" else WARN
    walks = count(trouble["walks"], "walk")
    after = (
        f", to be taken up after {moment(trouble['resume_after'], seconds=True)} UTC" if trouble["resume_after"] else ""
    )
    trace = f" (correlation id {clean(trouble['correlation_id'])})" if trouble["correlation_id"] else ""
    what = trouble["outcome"].replace("_", " ")
    said = clean((trouble["detail"] or "").rstrip("."))
    return f"{mark} {what}: {walks}, {clean(trouble['error_code'])}{after}: {said}{trace}"


def _lines(found: dict[str, Any]) -> Iterator[str]:
    totals = found["totals"]
    if found["last_run"]:
        yield _last_run(found["last_run"])
    for warning in found["warnings"]:
        yield f"{WARN} {clean(warning['detail'])}" + (f" Fix: {clean(warning['hint'])}" if warning["hint"] else "")
    yield from map(_fresh, found["freshness"])
    if totals["expired"]:
        yield f"{WARN} {count(totals['expired'], 'account')} with an expired token: see `gramhouse accounts --expired`"
    yield from map(_trouble, found["trouble"])
    if totals["quarantined"]:
        yield f"{WARN} {count(totals['quarantined'], 'record')} in quarantine: see `gramhouse quarantine`"
    numbers = (
        count(totals["accounts"], "account"),
        count(totals["posts"], "post"),
        count(totals["stories"], "story", "stories"),
    )
    yield f"[dim]The snapshot holds {', '.join(numbers)}; published {moment(totals['published_at'])} UTC.[/]"


def status(*, warehouse: WarehouseFile = None, snapshot: SnapshotFile = None, as_json: AsJson = False) -> None:
    """Say what is fresh, stale, expired, deferred or failed, and why."""
    settings = load(warehouse=warehouse, snapshot=snapshot)
    writing = holder(settings.warehouse)
    try:
        with open_snapshot(settings.snapshot) as opened:
            found = _gather(opened)
    except SnapshotMissing:
        if writing is None:
            raise
        if as_json:
            print_json(
                {
                    "totals": None,
                    "last_run": None,
                    "warnings": [],
                    "freshness": [],
                    "trouble": [],
                    "writing": str(writing),
                }
            )
            return
        out.print(f"{WARN} {clean(writing)} is writing; nothing has been published yet.")
        return
    if as_json:
        print_json(found | {"writing": str(writing) if writing else None})
        return
    if writing:
        out.print(f"{WARN} {clean(writing)} is writing; what follows is the snapshot before it.")
    for line in _lines(found):
        out.print(line)

"""`gramhouse status`: the state of data and runs, read from the snapshot and the status file next to it.

It does not open the warehouse, so it never waits for a writer.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import typer

from connectors.store.object_store import StoreError
from connectors.warehouse.runs.failure_groups import grouped
from connectors.warehouse.snapshot.reader import Snapshot, open_snapshot
from connectors.warehouse.storage.durable import log_problem
from connectors.warehouse.storage.errors import QueryError, SnapshotMissing, WarehouseError, WarehouseUnusable
from connectors.warehouse.storage.holder import Holder, holder
from connectors.warehouse.storage.statements import statements
from flows.cli.current_run import Current, current
from flows.cli.options import AsJson, SnapshotFile, WarehouseFile
from flows.cli.output.incremental_status import incremental, incremental_lines
from flows.cli.output.openmetrics import metrics, unreadable
from flows.cli.output.terminal import DONE, FAIL, WARN, clean, out, print_json, write_utf8
from flows.cli.snapshot_download import current_snapshot
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load
from flows.engine.clock import SystemClock
from flows.reporting.exit_code import ExitCode
from flows.reporting.headline import LOST
from flows.reporting.words import count, fix_for, long_cooldowns, moment, run_title, span
from models.runs import LONG_COOLDOWN, RunState

_SQL = statements(__name__)
_WARNINGS = statements("flows.reporting.summary")["warnings"]

_MARKS = {"complete": DONE, "failed": FAIL, "interrupted": FAIL}

# Runs that end in these states have published a snapshot.
_PUBLISHES = {RunState.COMPLETE, RunState.PARTIAL}

# The number of stale accounts named on a line; --json has all of them.
_NAMED = 5

_FAILURES = f"""
SELECT outcome, error_code, scans, accounts, resume_after, detail, examples[1].correlation_id AS correlation_id
FROM ({grouped(_SQL["last_tried"])}) ORDER BY scans DESC, outcome, error_code
"""  # noqa: S608 - our own statement

_LAST_RUN = "SELECT * FROM runs WHERE kind IN ('sync', 'backfill') ORDER BY seq DESC LIMIT 1"

# $1 is the current time; $2 is the time for which staleness is determined. `age_seconds` is the age of the oldest scan
# of an account that should be fresh.
_FRESHNESS = """
SELECT
    f.surface, count(f.stale_at) AS accounts, count(*) FILTER (f.stale_at < $2) AS stale,
    count(f.stale_at) FILTER (f.complete_at IS NULL) AS never,
    min(f.complete_at) FILTER (f.stale_at IS NOT NULL) AS oldest,
    greatest(epoch($1::TIMESTAMPTZ) - epoch(min(f.stale_at)) + any_value(p.stale_after), 0)::BIGINT AS age_seconds
FROM freshness AS f CROSS JOIN published AS p
GROUP BY f.surface HAVING accounts > 0 ORDER BY f.surface
"""

_STALE = """
SELECT f.account_id, f.ig_username, f.surface, f.complete_at, f.outcome, f.error_code, f.resume_after
FROM freshness AS f WHERE f.stale_at < $1 ORDER BY f.stale_at, f.ig_username, f.surface
"""

# Accounts whose scans could not mark removals because of rejected records, for longer than the stale limit.
_UNDECIDED = """
SELECT f.account_id, f.ig_username, f.surface, f.removals_undecided_since
FROM freshness AS f WHERE f.removals_undecided_since < $1 ORDER BY f.removals_undecided_since, f.ig_username, f.surface
"""

# The scans of listed accounts, and of the catalogue, that a very long cooldown defers. $1 is in a day.
_COOLDOWNS = f"""
SELECT t.account_id, coalesce(a.ig_username, '') AS ig_username, max(t.resume_after) AS resume_after
FROM ({_SQL["last_tried"]}) AS t LEFT JOIN accounts AS a USING (account_id)
WHERE t.outcome = 'deferred' AND t.resume_after > $1 GROUP BY ALL ORDER BY ig_username, t.account_id
"""  # noqa: S608 - our own statement


def _gather(snapshot: Snapshot, now: datetime, state: Current, stale_after: float | None) -> dict[str, Any]:
    """Read the contents of the status; `stale_after`, in seconds, overrides the limit of the snapshot."""
    totals = snapshot.query(_SQL["totals"]).records()[0]
    limit = totals["stale_after"] if stale_after is None else stale_after
    stale_at = now + timedelta(seconds=totals["stale_after"] - limit)
    answer = snapshot.query(_LAST_RUN)
    last = [*filter(None, [state.run_after(snapshot, answer.columns)]), *answer.records()][:1]
    has_warnings = bool(last) and snapshot.has("run_warnings")
    shown = {run["run_id"] for run in last}
    freshness = snapshot.query(_FRESHNESS, [now, stale_at]).records()
    return {
        "totals": totals | {"stale_after": limit},
        "last_run": last[0] if last else None,
        "unresolved": [run for run in snapshot.query(_SQL["unresolved"]).records() if run["run_id"] not in shown],
        "warnings": snapshot.query(_WARNINGS, [last[0]["run_id"]]).records() if has_warnings else [],
        "freshness": freshness,
        "oldest_age_seconds": max((fact["age_seconds"] for fact in freshness), default=None),
        "stale": snapshot.query(_STALE, [stale_at]).records(),
        "undecided": _undecided(snapshot, now - timedelta(seconds=limit)),
        "failures": snapshot.query(_FAILURES).records(),
        "long_cooldowns": snapshot.query(_COOLDOWNS, [now + LONG_COOLDOWN]).records(),
        **incremental(snapshot, now),
    }


def _undecided(snapshot: Snapshot, before: datetime) -> list[dict[str, Any]]:
    # Snapshots of older versions do not have this column.
    columns = snapshot.query("SELECT * FROM freshness LIMIT 0").columns
    return snapshot.query(_UNDECIDED, [before]).records() if "removals_undecided_since" in columns else []


def attention(found: Mapping[str, Any], state: Current) -> dict[str, bool]:
    """Return each possible reason for attention, as a word for programs, and whether it holds."""
    last = found["last_run"]
    ends = {run["state"] for run in (*filter(None, [last]), *found["unresolved"])}
    other = state.other()
    return {
        "interrupted": "interrupted" in ends or (other is not None and other.state is RunState.INTERRUPTED),
        "failed": "failed" in ends
        or any(each["outcome"] in LOST for each in found["failures"])
        or (other is not None and other.state is RunState.FAILED),
        "warning": any(each["makes_partial"] for each in found["warnings"]),
        "stale": bool(found["stale"]),
        "removals_undecided": bool(found["undecided"]),
        "long_cooldown": bool(found["long_cooldowns"]),
        "full_overdue": bool(found["full_overdue"]),
        "status_file": state.is_damaged,
        "snapshot_log": found.get("snapshot_problem") is not None,
    }


def _run(run: Mapping[str, Any], *, is_last: bool = True, is_checked: bool = True) -> str:
    why = ": ".join(clean(run[name].rstrip(".")) for name in ("error_code", "detail") if run[name])
    numbers = [count(run[name], noun) for name, noun in (("accounts", "account"), ("pages", "page")) if run[name]]
    numbers += [f"{run[name]:,} {noun}" for name, noun in (("added", "new"), ("changed", "changed")) if run[name]]
    mark = _MARKS.get(run["state"], WARN)
    if mark == DONE and not is_checked:
        mark = WARN
    what = clean(run_title(run["kind"], run["selection"]))
    title = f"Last run: {what}:" if is_last else f"Earlier run: {what}:"
    state = f"[bold]{clean(run['state'])}[/]{f' ({why})' if why else ''}"
    fix = ""
    if run["state"] == "interrupted":
        fix = " Fix: run the same command to resume."
    done = f": {', '.join(numbers)}" if numbers else ""
    return f"{mark} {title} {state}, started {moment(run['started_at'])} UTC{done}.{fix}"


def _fresh(fact: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    limit = span(found["totals"]["stale_after"])
    surface, accounts = clean(fact["surface"]), count(fact["accounts"], "account")
    if fact["never"] == fact["accounts"] and not fact["stale"]:
        return f"{WARN} {accounts}: {surface} never scanned to the end"
    if fact["never"] and not fact["stale"]:
        scanned = f"{fact['accounts'] - fact['never']:,} of {accounts}"
        return f"{WARN} {scanned}: {surface} refreshed within {limit}; {fact['never']:,} never scanned to the end"
    if not fact["stale"]:
        return f"{DONE} {accounts}: {surface} refreshed within {limit}; the oldest is {span(fact['age_seconds'])} old"
    names = [clean(each["ig_username"]) for each in found["stale"] if each["surface"] == fact["surface"]]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    never = f"; {fact['never']:,} never completed" if fact["never"] else ""
    stale = f"{fact['stale']:,} of {accounts}: {surface} not refreshed within {limit}: {', '.join(names[:_NAMED])}"
    age = f"the oldest is {span(fact['age_seconds'])} old"
    return f"{FAIL} {stale}{more}{never}; {age}. Fix: `gramhouse sync`."


def _undecided_line(undecided: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(clean(each["ig_username"]) for each in undecided))
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    since = moment(undecided[0]["removals_undecided_since"])
    return (
        f"{FAIL} no items of {', '.join(names[:_NAMED])}{more} were marked as removed or expired since {since} UTC,"
        " because their scans rejected records. Fix: see `gramhouse quarantine`; set the path of their ids under"
        " [mapping] in gramhouse.toml."
    )


def _failure_group(failure: dict[str, Any]) -> str:
    mark = FAIL if failure["outcome"] in LOST else WARN
    scans = count(failure["scans"], "scan")
    after = f", retry after {moment(failure['resume_after'], seconds=True)} UTC" if failure["resume_after"] else ""
    trace = f" (correlation id {clean(failure['correlation_id'])})" if failure["correlation_id"] else ""
    what = failure["outcome"].replace("_", " ")
    detail = clean((failure["detail"] or "").rstrip("."))
    fix = fix_for(failure["error_code"]) if mark == FAIL else ""
    fix = fix and f". {clean(fix)}"
    return f"{mark} {what}: {scans}, {clean(failure['error_code'])}{after}: {detail}{trace}{fix}"


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    totals = found["totals"]
    if found["last_run"]:
        yield _run(found["last_run"])
    for run in found["unresolved"]:
        yield _run(run, is_last=False)
    for warning in found["warnings"]:
        yield f"{WARN} {clean(warning['detail'])}" + (f" Fix: {clean(warning['hint'])}" if warning["hint"] else "")
    for fact in found["freshness"]:
        yield _fresh(fact, found)
    yield from incremental_lines(found)
    if found["undecided"]:
        yield _undecided_line(found["undecided"])
    if totals["expired"]:
        yield f"{WARN} {count(totals['expired'], 'account')} with an expired token: see `gramhouse accounts --expired`"
    if found["long_cooldowns"]:
        until = max(each["resume_after"] for each in found["long_cooldowns"])
        yield f"{FAIL} {clean(long_cooldowns([each['ig_username'] for each in found['long_cooldowns']], until))}"
    yield from map(_failure_group, found["failures"])
    if totals["quarantined"]:
        yield f"{WARN} {count(totals['quarantined'], 'record')} in quarantine: see `gramhouse quarantine`"
    numbers = (
        count(totals["accounts"], "account"),
        count(totals["posts"], "post"),
        count(totals["stories"], "story", "stories"),
    )
    yield f"[dim]The snapshot holds {', '.join(numbers)}; published {moment(totals['published_at'])} UTC.[/]"


def _unpublished(state: Current) -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys(("totals", "oldest_age_seconds"))
    names = (
        "unresolved",
        "warnings",
        "freshness",
        "stale",
        "undecided",
        "failures",
        "long_cooldowns",
        "recent",
        "full_overdue",
        "gaps",
    )
    empty |= {name: [] for name in names}
    return empty | {"last_run": state.as_run()}


def _print(found: Mapping[str, Any], state: Current, writing: Holder | None) -> None:
    what = "the following describes the previous snapshot" if found["totals"] else "no snapshot has been published yet"
    if writing:
        out.print(f"{WARN} {clean(writing)} is running; {what}.")
    if state.problem:
        out.print(f"{FAIL if state.is_damaged else WARN} {clean(state.problem)}", soft_wrap=True)
    if state.status and state.status.state is RunState.RUNNING and writing is None:
        out.print(f"{WARN} Cannot check on this machine whether process {state.status.pid} is still running.")
    if (other := state.other()) is not None:
        out.print(_run((state.as_run() or {}) | {"kind": other.kind, "added": None, "changed": None}))
    if found["snapshot_problem"]:
        out.print(f"{FAIL} {clean(found['snapshot_problem'])}", soft_wrap=True)
    if found["totals"]:
        for line in _lines(found):
            out.print(line)
    elif found["last_run"] and found["last_run"]["run_id"]:
        # Without a readable snapshot, the run is not marked as good.
        out.print(_run({"added": None, "changed": None} | found["last_run"], is_checked=False))


def report(settings: Settings, now: datetime, *, as_json: bool = False, as_metrics: bool = False) -> ExitCode:
    """Print the status as of `now`; return 0, or 3 if something requires attention.

    Raises SnapshotMissing if there is neither a snapshot nor a run, WarehouseUnusable and StoreError.
    """
    snapshot = current_snapshot(settings)
    writing, state = holder(settings.warehouse), current(settings)
    problem = log_problem(snapshot)
    try:
        if problem is None:
            stale_after = settings.stale_after if "stale_after" in settings.model_fields_set else None
            with open_snapshot(snapshot) as opened:
                found = _gather(opened, now, state, stale_after)
        else:
            found = _unpublished(state)
    except WarehouseUnusable:
        if state.status is None or not state.status.failed_to_start:
            raise
        # The snapshot's path may be the cause of the failure.
        found = _unpublished(state)
    except SnapshotMissing:
        if writing is None and state.status is None:
            raise
        if state.status is not None and state.status.state in _PUBLISHES:
            message = f"There is no snapshot at {settings.snapshot}, but a run published one. Fix: `gramhouse publish`."
            raise SnapshotMissing(message) from None
        found = _unpublished(state)
    found["snapshot_problem"] = problem
    reasons = attention(found, state)
    if as_json:
        given = [reason for reason, holds in reasons.items() if holds]
        others: dict[str, Any] = {
            "status_file": state.problem,
            "writing": str(writing) if writing else None,
            "attention": given,
            "last_command": state.as_run() if state.other() else None,
        }
        print_json({**found, **others})
    elif as_metrics:
        out.out(metrics(found, reasons, writing=writing is not None))
    else:
        _print(found, state, writing)
    return ExitCode.PARTIAL if any(reasons.values()) else ExitCode.COMPLETE


def status(
    *,
    form: Annotated[
        Literal["text", "openmetrics"],
        typer.Option("--format", help="text, or openmetrics for Prometheus's textfile collector."),
    ] = "text",
    warehouse: WarehouseFile = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what is fresh, stale, expired, deferred, failed or interrupted, and why.

    Exit codes: 0 healthy, 1 nothing can be read, 2 wrong usage or configuration, 3 something requires action: stale,
    failed or interrupted scans, a warning, removals that are undecided for too long, an overdue full scan, a cooldown
    of more than a day, or a damaged status file or snapshot.
    """
    settings = load(warehouse=warehouse, snapshot=snapshot)
    as_metrics = form == "openmetrics"
    if as_json and as_metrics:
        message = "--json and --format openmetrics cannot be combined. Fix: use one of them."
        raise SettingsError(message)
    if as_metrics:
        write_utf8()
    try:
        code = report(settings, SystemClock().now(), as_json=as_json, as_metrics=as_metrics)
    except (WarehouseError, QueryError, StoreError):
        if as_metrics:
            out.out(unreadable())
        raise
    raise typer.Exit(code)

"""`gramhouse status`: the state of data and runs, read from the snapshot and the state beside the warehouse.

It does not open the warehouse, so it never waits for a writer.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from itertools import chain
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter
from humanize import naturaldelta

from connectors.buckets.address import BucketError
from connectors.warehouse.queries.reader import Snapshot, open_snapshot
from connectors.warehouse.storage.durable import log_problem
from connectors.warehouse.storage.errors import SnapshotMissing, SnapshotUnreadable, WarehouseError, WarehouseUnusable
from connectors.warehouse.storage.holder import Holder, holder
from connectors.warehouse.storage.identity import read_warehouse
from connectors.warehouse.storage.statements import statements
from flows.cli.current import Current, current, current_snapshot
from flows.cli.options import AsJson, SnapshotFile, WarehouseFile
from flows.cli.output.terminal import DONE, FAIL, WARN, clean, out, print_json, print_row, write_utf8
from flows.clock import SystemClock
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load
from flows.reporting.exit_code import ExitCode
from flows.reporting.findings import LOST, list_findings
from flows.reporting.reader import Reader
from flows.reporting.run_report import NO_DATA, last_report
from flows.reporting.words import count, join, moment, run_title, span
from models.erasure import UNFINISHED
from models.feeds import FEEDS
from models.findings import Severity
from models.runs import RunState

_SQL = statements(__name__)

# The rows about the data that --json has.
_DATA = ("freshness", "stale", "undecided", "recent", "full_overdue", "gaps")

# The names of ages of scans, by kind.
_SCANS = {"recent": "recent", "full": "complete"}

# A mark, and a text from anywhere.
Line: TypeAlias = tuple[str, str]

_COUNTS = {"accounts": ("account",), "pages": ("page",), "added": ("new", "new"), "changed": ("changed", "changed")}


def _gather(snapshot: Snapshot, settings: Settings, now: datetime, state: Current) -> dict[str, Any]:
    reader = Reader(snapshot, now=now)
    [totals] = reader.records(_SQL["totals"])
    items = dict.fromkeys(sorted(FEEDS), 0) | dict(snapshot.query(_SQL["items"]).rows)
    last = state.runs(snapshot, 1)
    ended = [run for run in last if run["ended_at"] is not None] or reader.records(_SQL["last_ended"])
    shown = {run["run_id"] for run in last}
    report = last_report(reader)
    data = NO_DATA if report is None else report.data
    if report is not None and settings.warehouse.exists():
        # On another machine, the mapping of the settings is not that of syncs.
        report = replace(report, mapping_pending=read_warehouse(snapshot.db).mapping != settings.media_mapping())
    return {
        "totals": {**totals, **items},
        "last_run": last[0] if last else None,
        "last_ended_run": ended[0] if ended else None,
        "unresolved": [run for run in reader.records(_SQL["unresolved"]) if run["run_id"] not in shown],
        "warnings": report.warnings if report else (),
        **{name: data[name] for name in _DATA},
        "oldest_age_seconds": max((each["age_seconds"] or 0 for each in data["freshness"]), default=None),
        "failures": [asdict(replace(group, usernames=())) for group in report.failure_groups] if report else [],
        "findings": list_findings(report) if report else [],
    }


def _is_unpublished(last: Mapping[str, Any] | None) -> bool:
    """Return whether the last run has ended and should be in the snapshot, but is only in the state."""
    if last is None or last["run_id"] is None or last.get("seq") is not None:
        return False
    return last["state"] in {RunState.COMPLETE, RunState.PARTIAL}


def attention(found: Mapping[str, Any], state: Current) -> dict[str, bool]:
    """Return each possible reason for attention, as a word for programs, and whether it holds."""
    last = found["last_run"]
    ends = {run["state"] for run in (*filter(None, [last]), *found["unresolved"], *filter(None, [state.other()]))}
    codes = {finding.code for finding in found["findings"]}
    return {
        "interrupted": RunState.INTERRUPTED in ends,
        "unpublished": _is_unpublished(last) and found.get("snapshot_problem") is None,
        "failed": RunState.FAILED in ends or bool(codes & set(LOST)),
        "warning": any(each.severity is Severity.ACTION for each in found["warnings"]),
        **{name: name in codes for name in ("stale", "removals_undecided", "long_cooldown", "full_overdue")},
        "status_file": state.is_damaged,
        "snapshot_log": found.get("snapshot_problem") is not None,
        "unfinished_erasure": found["unfinished_erasure"] is not None,
    }


def _run(run: Mapping[str, Any], title: str = "Last run", done: str = DONE) -> Line:
    """Return the line of a run; `done` is the mark of one that is complete."""
    why = join(": ", ((run[name] or "").rstrip(".") for name in ("error_code", "detail")))
    numbers = [count(run[name], *noun) for name, noun in _COUNTS.items() if run.get(name)]
    mark = {"complete": done, "failed": FAIL, "interrupted": FAIL}.get(run["state"], WARN)
    fix = " Fix: run the same command to resume." if run["state"] == "interrupted" else ""
    began = join(": ", (f"started {moment(run['started_at'])} UTC", ", ".join(numbers)))
    state = f"{run['state']}{f' ({why})' if why else ''}"
    return mark, f"{title}: {run_title(run['kind'], run['selection'])}: {state}, {began}.{fix}"


def _lines_of_commands(found: Mapping[str, Any], state: Current, writing: Holder | None) -> Iterator[Line]:
    """Yield what commands did, and what is wrong with the files."""
    if writing:
        what = "the previous snapshot follows" if found["totals"] else "no snapshot has been published yet"
        yield WARN, f"{writing} is running; {what}."
    if state.problem:
        yield FAIL if state.is_damaged else WARN, state.problem
    if state.last and state.last["state"] == RunState.RUNNING and writing is None:
        yield WARN, f"Cannot check on this machine whether process {state.last['pid']} is still running."
    if (other := state.other()) is not None:
        yield _run(other, "Last command")
    yield from ((FAIL, found[name]) for name in ("snapshot_problem", "unfinished_erasure") if found[name])
    last, has_snapshot = found["last_run"], found["totals"] is not None
    if last and (has_snapshot or last["run_id"]):
        # Without a readable snapshot, the run is not marked as good.
        yield _run(last, done=DONE if has_snapshot else WARN)
    if _is_unpublished(last) and has_snapshot:
        yield FAIL, "The snapshot does not contain this run. Fix: correct the cause, then `gramhouse publish`."
    yield from (_run(run, "Earlier run") for run in found["unresolved"])


def _lines_of_data(found: Mapping[str, Any]) -> Iterator[Line]:
    """Yield the findings, and how old the data are of which nothing is stale."""
    for finding in found["findings"]:
        quiet = "[dim]·[/]" if finding.severity is Severity.INFORMATION else WARN
        yield FAIL if finding.is_alarm or finding.code in LOST else quiet, finding.sentence()
    for fact in found["freshness"]:
        never, accounts = fact["never"], fact["accounts"]
        if accounts and not fact["stale"]:
            oldest = f"the oldest {naturaldelta(fact['age_seconds'])} ago"
            rest = f"{never:,} never scanned to the end" if never else oldest
            refreshed = f"{fact['surface']} refreshed within {span(fact['stale_after'])}"
            yield WARN if never else DONE, f"{accounts - never:,} of {count(accounts, 'account')}: {refreshed}; {rest}."
    for recent in found["recent"]:
        ages = (f"oldest {kind} scan {naturaldelta(recent[name])} ago" for kind, name in _SCANS.items())
        yield DONE, f"{recent['surface']} of {count(recent['accounts'], 'account')}: {', '.join(ages)}."


def _print(found: Mapping[str, Any], lines: Iterable[Line]) -> None:
    """Print the lines, what to act on first."""
    for mark, text in sorted(lines, key=lambda line: line[0] != FAIL):
        print_row(mark, clean(text))
    if totals := found["totals"]:
        items = (count(totals[name], feed.noun, name) for name, feed in sorted(FEEDS.items()))
        numbers = ", ".join((count(totals["accounts"], "account"), *items))
        out.print(f"[dim]The snapshot holds {numbers}; published {moment(totals['published_at'])} UTC.[/]")


def _unpublished(state: Current) -> dict[str, Any]:
    lists = dict.fromkeys(("unresolved", "warnings", "failures", "findings", *_DATA), ())
    last = state.as_run()
    # A run that failed to start has no id: cron may repeat it for days, and no run has ended meanwhile.
    ended = last if last and last["run_id"] is not None and last["ended_at"] is not None else None
    return {"totals": None, "oldest_age_seconds": None, **lists, "last_run": last, "last_ended_run": ended}


def report(settings: Settings, now: datetime, *, as_json: bool = False, as_metrics: bool = False) -> ExitCode:
    """Print the status as of `now`; return 0, or 3 if something requires attention.

    Raises BucketError, and WarehouseError, such as SnapshotMissing if there is neither a snapshot nor a run.
    """
    snapshot = current_snapshot(settings)
    writing, state = holder(settings.warehouse), current(settings)
    problem, found = log_problem(snapshot), _unpublished(state)
    try:
        if problem is None:
            with open_snapshot(snapshot) as opened:
                found = _gather(opened, settings, now, state)
    except (WarehouseUnusable, SnapshotUnreadable):
        # The snapshot's path may be the cause of the failure.
        if not state.failed_to_start:
            raise
    except SnapshotMissing:
        if writing is None and state.last is None:
            raise
        if state.last is not None and state.last["published_at"] is not None:
            raise SnapshotMissing(
                f"There is no snapshot at {settings.snapshot}, but a run published one. Fix: `gramhouse publish`."
            ) from None
    found |= {"snapshot_problem": problem, "unfinished_erasure": UNFINISHED if state.has_unfinished_erasure else None}
    reasons = attention(found, state)
    if as_json:
        given = [reason for reason, holds in reasons.items() if holds]
        print_json(
            {
                **{name: value for name, value in found.items() if name != "warnings"},
                "findings": [asdict(finding) for finding in found["findings"]],
                "status_file": state.problem,
                "writing": str(writing) if writing else None,
                "attention": given,
                "last_command": state.as_run() if state.other() else None,
            }
        )
    elif as_metrics:
        from flows.cli.output.openmetrics import metrics

        out.out(metrics(found, reasons))
    else:
        _print(found, chain(_lines_of_commands(found, state, writing), _lines_of_data(found)))
    return ExitCode.PARTIAL if any(reasons.values()) else ExitCode.COMPLETE


def status(
    *,
    form: Annotated[
        Literal["text", "openmetrics"],
        Parameter("--format", help="text, or openmetrics for Prometheus's textfile collector."),
    ] = "text",
    warehouse: WarehouseFile = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what is fresh, stale, expired, failed or interrupted, and why.

    Exit codes: 0 healthy, 1 nothing can be read, 2 wrong usage or configuration, 3 something requires action: stale,
    failed or interrupted scans, a run that was not published, a warning, removals that are undecided for too long, an
    overdue full scan, a cooldown of more than a day, an interrupted `gramhouse forget`, or a damaged state or
    snapshot.
    """
    as_metrics = form == "openmetrics"
    if as_json and as_metrics:
        raise SettingsError("--json and --format openmetrics cannot be combined. Fix: use one of them.")
    if as_metrics:
        write_utf8()
    try:
        settings = load(warehouse=warehouse, snapshot=snapshot)
        code = report(settings, SystemClock().now(), as_json=as_json, as_metrics=as_metrics)
    except (SettingsError, WarehouseError, BucketError, OSError):
        if as_metrics:
            from flows.cli.output.openmetrics import metrics

            out.out(metrics(None, {}))
        raise
    raise SystemExit(code)

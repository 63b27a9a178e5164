"""`gramhouse status`: the state of data and runs, read from the snapshot and the state beside the warehouse.

It does not open the warehouse, so it never waits for a writer.
"""

from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Literal

from cyclopts import Parameter
from humanize import naturaldelta
from rich.console import RenderableType

from connectors.buckets import BucketError
from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.storage.durable import log_problem
from connectors.warehouse.storage.errors import SnapshotMissing, SnapshotUnreadable, WarehouseError, WarehouseUnusable
from connectors.warehouse.storage.identity import read_warehouse
from connectors.warehouse.storage.statements import statements
from flows.cli.current import Current, Record, current, current_snapshot
from flows.cli.options import AsJson, SnapshotFile, WarehouseFile
from flows.cli.output.terminal import DONE, FAIL, QUIET, WARN, Answer, clean, out, row, write_utf8
from flows.clock import SystemClock
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load
from flows.reporting.exit_code import ExitCode
from flows.reporting.findings import LOST, list_findings
from flows.reporting.reader import Reader
from flows.reporting.run_report import NO_DATA, RunReport, last_report
from flows.reporting.words import count, join, moment, run_title, span
from models.erasure import UNFINISHED
from models.feeds import FEEDS
from models.findings import Finding, Severity
from models.runs import RUN_KINDS, RunState

_SQL = statements(__name__)

_MARKS = {Severity.ACTION: FAIL, Severity.WARNING: WARN, Severity.INFORMATION: QUIET}

# The rows about the data that --json has.
_DATA = ("freshness", "stale", "undecided", "recent", "gaps")

_COUNTS = {"accounts": ("account",), "pages": ("page",), "added": ("new", "new"), "changed": ("changed", "changed")}


def read_status(settings: Settings, now: datetime) -> tuple[Record, dict[str, bool]]:
    """Return the status as of `now` as a document, and each possible reason for attention, and whether it holds.

    Raises BucketError, and WarehouseError, such as SnapshotMissing if there is neither a snapshot nor a run.
    """
    snapshot, state = current_snapshot(settings), current(settings)
    last, problem = state.last, log_problem(snapshot)
    # A run that failed to start has no id: cron may repeat it for days, and no run has ended meanwhile.
    ended = last if last and last["run_id"] is not None and last["ended_at"] is not None else None
    found: Record = {"totals": None, "last_run": last, "last_ended_run": ended, "unresolved": []}
    report = None
    try:
        if problem is None:
            report, read = _read_snapshot(settings, now, state)
            found |= read
    except (WarehouseUnusable, SnapshotUnreadable):
        # The snapshot's path may be the cause of the failure.
        if last is None or last["kind"] not in RUN_KINDS or last["run_id"] is not None:
            raise
    except SnapshotMissing:
        if state.writing is None and last is None:
            raise
        if last is not None and last["published_at"] is not None:
            raise SnapshotMissing(
                f"There is no snapshot at {settings.snapshot}, but a run published one. Fix: `gramhouse publish`."
            ) from None
    data, findings = report.data if report else NO_DATA, list_findings(report) if report else ()
    found |= {name: data[name] for name in _DATA} | {
        "oldest_age_seconds": max((each["age_seconds"] or 0 for each in data["freshness"]), default=None),
        "failures": [asdict(replace(each, usernames=())) for each in report.failure_groups] if report else [],
        "findings": [asdict(finding) for finding in findings],
        "snapshot_problem": problem,
        "unfinished_erasure": UNFINISHED if state.is_erasing else None,
        "status_file": state.problem,
        "writing": state.writing,
        "last_command": state.other(),
    }
    shown, codes = (found["last_run"], found["last_command"], *found["unresolved"]), {each.code for each in findings}
    states = {run["state"] for run in shown if run}
    # It has ended but is not in the snapshot, and no process is running that could publish.
    run = (found["last_run"] if state.writing is None and problem is None else None) or {"run_id": None}
    has_ended = run["run_id"] is not None and run["state"] in {RunState.COMPLETE, RunState.PARTIAL}
    reasons = {
        "interrupted": RunState.INTERRUPTED in states,
        "unpublished": has_ended and run.get("seq") is None,
        "failed": RunState.FAILED in states or bool(codes & set(LOST)),
        "warning": any(each.severity is Severity.ACTION for each in (report.warnings if report else ())),
        **{name: name in codes for name in ("stale", "removals_undecided", "long_cooldown")},
        "status_file": state.problem is not None,
        "snapshot_log": problem is not None,
        "unfinished_erasure": state.is_erasing,
    }
    return found | {"attention": [reason for reason, holds in reasons.items() if holds]}, reasons


def _read_snapshot(settings: Settings, now: datetime, state: Current) -> tuple[RunReport | None, Record]:
    with open_snapshot(settings.snapshot_file()) as snapshot:
        reader = Reader(snapshot, now=now)
        [totals] = reader.records(_SQL["totals"])
        items = dict.fromkeys(sorted(FEEDS), 0) | totals.pop("items")
        last = state.runs(snapshot, 1)
        ended = [run for run in last if run["ended_at"] is not None] or reader.records(_SQL["last_ended"])
        shown = {run["run_id"] for run in last}
        if (report := last_report(reader)) is not None and settings.warehouse.exists():
            # On another machine, the mapping of the settings is not that of syncs.
            report = replace(report, mapping_pending=read_warehouse(snapshot.db).mapping != settings.media_mapping())
        return report, {
            "totals": totals | items,
            "last_run": next(iter(last), None),
            "last_ended_run": next(iter(ended), None),
            "unresolved": [run for run in reader.records(_SQL["unresolved"]) if run["run_id"] not in shown],
        }


def _describe_run(run: Record, title: str, done: str = DONE) -> tuple[str, str]:
    """Return the mark and the line of a run; `done` is the mark of one that is complete."""
    why = join(": ", ((run[name] or "").rstrip(".") for name in ("error_code", "detail")))
    numbers = [count(run[name], *noun) for name, noun in _COUNTS.items() if run.get(name)]
    fix = " Fix: run the same command to resume." if run["state"] == RunState.INTERRUPTED else ""
    began = join(": ", (f"started {moment(run['started_at'])} UTC", ", ".join(numbers)))
    mark = {RunState.COMPLETE: done, RunState.FAILED: FAIL, RunState.INTERRUPTED: FAIL}.get(run["state"], WARN)
    state = f"{run['state']}{f' ({why})' if why else ''}"
    return mark, f"{title}: {run_title(run['kind'], run['selection'])}: {state}, {began}.{fix}"


def _describe_commands(found: Record) -> Iterator[tuple[str, str | None]]:
    """Yield the marks and lines of what commands did, and of what is wrong with the files."""
    last, has_snapshot = found["last_run"], found["totals"] is not None
    if found["writing"]:
        what = "the previous snapshot follows" if has_snapshot else "no snapshot has been published yet"
        yield WARN, f"{found['writing']} is running; {what}."
    yield FAIL, found["status_file"]
    if found["last_command"]:
        yield _describe_run(found["last_command"], "Last command")
    yield FAIL, found["snapshot_problem"]
    yield FAIL, found["unfinished_erasure"]
    if last and (has_snapshot or last["run_id"]):
        # Without a readable snapshot, the run is not marked as good.
        yield _describe_run(last, "Last run", DONE if has_snapshot else WARN)
    if has_snapshot and "unpublished" in found["attention"]:
        yield FAIL, "The snapshot does not contain this run. Fix: correct the cause, then `gramhouse publish`."
    yield from (_describe_run(run, "Earlier run") for run in found["unresolved"])


def _describe_data(found: Record) -> Iterator[tuple[str, str]]:
    """Yield the marks and lines of the findings, and of how old the data are of which nothing is stale."""
    for finding in (Finding(**each) for each in found["findings"]):
        yield _MARKS[finding.severity], finding.sentence()
    for fact in found["freshness"]:
        never, accounts = fact["never"], fact["accounts"]
        if accounts and not fact["stale"]:
            oldest = f"the oldest {naturaldelta(fact['age_seconds'])} ago"
            rest = f"{never:,} never scanned to the end" if never else oldest
            refreshed = f"{fact['surface']} refreshed within {span(fact['stale_after'])}"
            text = f"{accounts - never:,} of {count(accounts, 'account')}: {refreshed}; {rest}"
            yield WARN if never else DONE, f"{text}; the next is due {moment(fact['due_at'])} UTC."
    for fact in found["recent"]:
        recent, full = naturaldelta(fact["recent"]), naturaldelta(fact["complete"])
        ages = f"oldest recent scan {recent} ago, oldest full scan {full} ago"
        yield DONE, f"{fact['surface']} of {count(fact['accounts'], 'account')}: {ages}."


def _describe(found: Record) -> Iterator[RenderableType]:
    """Yield the lines, what to act on first."""
    for mark, text in sorted((*_describe_commands(found), *_describe_data(found)), key=lambda line: line[0] != FAIL):
        if text:
            yield row(mark, clean(text))
    if totals := found["totals"]:
        items = (count(totals[name], feed.noun, name) for name, feed in sorted(FEEDS.items()))
        numbers = ", ".join((count(totals["accounts"], "account"), *items))
        yield f"[dim]The snapshot holds {numbers}; published {moment(totals['published_at'])} UTC.[/]"


def report(settings: Settings, now: datetime) -> Answer:
    """Return the status as of `now`, with the exit code 3 if something requires attention.

    Raises as `read_status` does.
    """
    found, _ = read_status(settings, now)
    return Answer(found, _describe(found), ExitCode.PARTIAL if found["attention"] else ExitCode.COMPLETE)


def status(
    *,
    form: Annotated[
        Literal["text", "openmetrics"],
        Parameter("--format", help="text, or openmetrics for Prometheus's textfile collector."),
    ] = "text",
    warehouse: WarehouseFile = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> Answer:
    """Show what is fresh, stale, expired, failed or interrupted, and why.

    Exit codes: 0 healthy, 1 nothing can be read, 2 wrong usage or configuration, 3 something requires action: stale,
    failed or interrupted scans, a run that was not published, a warning, removals that are undecided for too long, a
    cooldown of more than a day, an interrupted `gramhouse forget`, or a damaged state or snapshot.
    """
    settings = partial(load, warehouse=warehouse, snapshot=snapshot)
    if form == "text":
        return report(settings(), SystemClock().now())
    if as_json:
        raise SettingsError("--json and --format openmetrics cannot be combined. Fix: use one of them.")
    from flows.cli.output.openmetrics import metrics

    write_utf8()
    try:
        found, reasons = read_status(settings(), SystemClock().now())
    except (SettingsError, WarehouseError, BucketError, OSError):
        out.out(metrics(None, {}))
        raise
    out.out(metrics(found, reasons))
    return Answer(None, code=ExitCode.PARTIAL if found["attention"] else ExitCode.COMPLETE)

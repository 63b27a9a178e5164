"""`gramhouse status`: the state of data and runs, read from the snapshot and the state beside the warehouse.

It does not open the warehouse, so it never waits for a writer. Text, JSON, metrics and exit code show one list of
findings.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from humanize import naturaldelta
from rich.console import RenderableType
from rich.text import Text

from connectors.buckets import BucketError
from connectors.warehouse.publish.replaceable import another_warehouse
from connectors.warehouse.queries.reader import Snapshot, open_snapshot
from connectors.warehouse.storage.errors import SnapshotMissing, SnapshotUnreadable, WarehouseError, WarehouseUnusable
from connectors.warehouse.storage.identity import read_warehouse
from connectors.warehouse.storage.statements import statements
from flows.cli.current import LEAST, Current, Record, current, current_snapshot
from flows.cli.options import AsJson, SnapshotFile, WarehouseFile
from flows.cli.output.terminal import DONE, Answer, finding_line, out, without_control_characters
from flows.clock import SystemClock
from flows.config.errors import ExitCode, SettingsError
from flows.config.settings import Settings, load
from flows.reporting.findings import LOST, list_findings
from flows.reporting.reader import Reader
from flows.reporting.run_report import NO_DATA, Data, RunReport, last_report
from flows.reporting.words import count, join, moment, run_title, span
from models.erasure import UNFINISHED
from models.feeds import FEEDS
from models.runs import Finding, RunState, Severity

REASONS = (
    *("interrupted", "unpublished", "failed", "warning", "stale", "removals_undecided", "long_cooldown"),
    *("status_file", "snapshot_log", "unfinished_erasure"),
)
"""The reasons for attention: codes of findings. Any other finding that requires action is a warning."""

_SQL = statements(__name__)

_RUN_COUNTS = ("accounts", "pages", "items", "added", "changed", "removed", "expired", "returned", "quarantined")

# The rows about the data that --json has.
_DATA = ("freshness", "stale", "undecided", "recent", "gaps")

_SEVERITIES = {
    RunState.FAILED: Severity.ACTION,
    RunState.INTERRUPTED: Severity.ACTION,
    RunState.PARTIAL: Severity.WARNING,
}


def read_status(settings: Settings, now: datetime, *, is_chosen: bool = False) -> Record:
    """Return the status as of `now` as a document; its `attention` are those of REASONS that hold.

    A snapshot of another warehouse is a problem, unless it `is_chosen`: then it is shown without the state.

    Raises BucketError, and WarehouseError, such as SnapshotMissing, if neither a snapshot nor a run can be read.
    """
    file, state = current_snapshot(settings), current(settings)
    problem = report = totals = None
    try:
        with open_snapshot(file) as snapshot:
            if (known := state.of(snapshot)) is None and not is_chosen:
                problem, runs = another_warehouse(settings.snapshot), [*state.runs]
            else:
                state = known or Current()
                totals, report = _read_data(snapshot, settings, now)
                runs = state.list_runs(snapshot, LEAST)
    except (SnapshotMissing, SnapshotUnreadable, WarehouseUnusable) as error:
        if not (state.runs or state.command or state.writing):
            raise
        runs = [*state.runs]
        if not isinstance(error, SnapshotMissing):
            problem = str(error)
        elif any(run["published_at"] for run in runs):
            problem = f"There is no snapshot at {file}, but a run published one. Fix: `gramhouse publish`."
    data = report.data if report else NO_DATA
    last = next(iter(runs), None)
    unresolved = [run for run in _find_unresolved(runs) if run is not last]
    command = state.command if state.command and state.command["state"] != RunState.COMPLETE else None
    shown = [("Last command", command)] if command else []
    shown += [("Last run", last)] if last else []
    shown += [("Earlier run", run) for run in unresolved]
    problems = {
        "status_file": state.problem,
        "snapshot_problem": problem,
        "unfinished_erasure": UNFINISHED if state.is_erasing else None,
    }
    found = [
        *_list_problems(state, problems, is_published=totals is not None),
        *(_describe_run(title, run) for title, run in shown),
        *(list_findings(report) if report else ()),
        *_list_fresh(data),
    ]
    found.sort(key=lambda finding: [*Severity].index(finding.severity))
    codes = {"failed" if each.code in LOST else each.code for each in found if each.severity is Severity.ACTION}
    codes |= {"warning"} if codes - {*REASONS} else set()
    return {
        "attention": [reason for reason in REASONS if reason in codes],
        "findings": [asdict(finding) for finding in found],
        "totals": totals,
        "last_run": last,
        # A run that is in progress or was killed has no end.
        "last_ended_run": next((run for run in runs if run["ended_at"] is not None), None),
        "last_command": command,
        "unresolved": unresolved,
        "writing": state.writing,
        "failures": [asdict(replace(each, usernames=())) for each in report.failure_groups] if report else [],
        "oldest_age_seconds": max((each["age_seconds"] or 0 for each in data["freshness"]), default=None),
        **problems,
        **{name: data[name] for name in _DATA},
    }


def _read_data(snapshot: Snapshot, settings: Settings, now: datetime) -> tuple[Record, RunReport | None]:
    reader = Reader(snapshot, now=now)
    [totals] = reader.records(_SQL["totals"])
    items = dict.fromkeys(sorted(FEEDS), 0) | totals.pop("items")
    if (report := last_report(reader)) is not None and settings.warehouse.exists():
        # On another machine, the mapping of the settings is not that of syncs.
        report = replace(report, mapping_pending=read_warehouse(snapshot.db).mapping != settings.media_mapping())
    return totals | items, report


def _find_unresolved(runs: Sequence[Record]) -> list[Record]:
    """Return the runs, newest first, that failed or were interrupted, and that no later run has made up for.

    A run does so if it is a sync of everything, or has the same kind and selection.
    """
    found, known = list[Record](), set[tuple[str, str | None]]()
    for run in runs:
        what, is_done = (run["kind"], run["selection"]), run["state"] in (RunState.COMPLETE, RunState.PARTIAL)
        if what == ("sync", None) and is_done:
            break
        if is_done or run["state"] in (RunState.FAILED, RunState.INTERRUPTED):
            found += [] if is_done or what in known else [run]
            known.add(what)
    return found


def _list_problems(state: Current, problems: Record, *, is_published: bool) -> Iterator[Finding]:
    """Yield who writes now, and what is wrong with the files."""
    if state.writing:
        what = "the previous snapshot follows" if is_published else "no snapshot has been published yet"
        yield Finding("writing", Severity.WARNING, f"{state.writing} is running; {what}")
    for name, problem in problems.items():
        text, _, fix = (problem or "").partition(" Fix: ")
        if text:
            code = "snapshot_log" if name == "snapshot_problem" else name
            yield Finding(code, Severity.ACTION, text.rstrip("."), fix.rstrip("."))
    for run in state.runs[:1]:
        has_ended = run["state"] in (RunState.COMPLETE, RunState.PARTIAL)
        if has_ended and run["published_at"] is None and not state.writing:
            # With a code it is why the run is partial.
            why, _, fix = ((None if run["error_code"] else run["detail"]) or "").partition(" Fix: ")
            text = join(": ", ("The snapshot does not contain the last run", why.rstrip(".")))
            fix = fix.rstrip(".") or "correct the cause, then `gramhouse publish`"
            yield Finding("unpublished", Severity.ACTION, text, fix)


def _describe_run(title: str, run: Record) -> Finding:
    """Return how a run, or another command, ended; the code is its state."""
    # That of a complete run is why it was not published.
    detail, _, fix = ("" if run["state"] == RunState.COMPLETE else run["detail"] or "").partition(" Fix: ")
    why = join(": ", (run["error_code"], detail.rstrip(".")))
    what = join(" ", (f"{title}: {run_title(run['kind'], run['selection'])}: {run['state']}", why and f"({why})"))
    resume = "run the same command to resume" if run["state"] == RunState.INTERRUPTED else ""
    severity = _SEVERITIES.get(run["state"], Severity.INFORMATION)
    text = f"{what}, started {moment(run['started_at'])} UTC"
    return Finding(run["state"], severity, text, fix.rstrip(".") or resume)


def _list_fresh(data: Data) -> Iterator[Finding]:
    """Yield how old the data are of which nothing is stale."""
    for fact in data["freshness"]:
        if fact["accounts"] and not fact["stale"]:
            never = f"{fact['never']:,} never scanned to the end" if fact["never"] else ""
            whose = f"{fact['surface']} of {count(fact['accounts'], 'account')}"
            text = f"{whose} refreshed within {span(fact['stale_after'])}"
            rest = f"the oldest {naturaldelta(fact['age_seconds'])} ago; the next is due {moment(fact['due_at'])} UTC"
            severity = Severity.WARNING if never else Severity.INFORMATION
            yield Finding("fresh", severity, join("; ", (text, never, rest)))


def _describe(found: Record) -> Iterator[RenderableType]:
    """Yield the lines, what to act on first."""
    if not found["attention"]:
        yield f"{DONE} Nothing requires action."
    yield from (finding_line(Finding(**each)) for each in found["findings"])
    if totals := found["totals"]:
        items = (count(totals[name], feed.noun, name) for name, feed in sorted(FEEDS.items()))
        numbers = ", ".join((count(totals["accounts"], "account"), *items))
        yield f"[dim]The snapshot holds {numbers}; published {moment(totals['published_at'])} UTC.[/]"


def metrics(found: Record | None) -> str:
    """Return the status as an OpenMetrics exposition; None is a status that cannot be read.

    Only gauges without timestamps, because node_exporter's textfile collector rejects other features of OpenMetrics.
    """
    # Imported here, because the text of the status does not need it.
    from prometheus_client.core import CollectorRegistry, Gauge
    from prometheus_client.openmetrics.exposition import generate_latest

    registry = CollectorRegistry()
    for name, what, labels, values in _gauges(found):
        gauge = Gauge(f"gramhouse_{name}", what, labels, registry=registry)
        for of, number in values.items():
            if number is None:
                continue
            # An error code may be any text that the API sent.
            (gauge.labels(*map(without_control_characters, of)) if labels else gauge).set(number)
    exposition: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return exposition.decode().rstrip("\n")


def _gauges(found: Record | None) -> Iterator[tuple[str, str, Sequence[str], Mapping[Any, Any]]]:
    """Yield the metrics: name, description and labels, and the numbers by the values of the labels as a tuple."""
    totals = found and found["totals"]
    yield "snapshot_readable", "1 if there is a snapshot that can be read.", (), {(): float(bool(totals))}
    if not found:
        return
    attention = {(reason,): float(reason in found["attention"]) for reason in REASONS}
    yield "attention", "1 for each reason that requires attention, else 0.", ["reason"], attention
    # Not a run in progress: its time and counts would be missing until it ends, and if it is killed, for good.
    if run := found["last_ended_run"]:
        ended = run["ended_at"].timestamp()
        yield "last_run_ended_timestamp_seconds", "When the last run that ended did so.", (), {(): ended}
        counts = {(name,): run.get(name) for name in _RUN_COUNTS}
        yield "last_run_count", "What it landed and changed.", ["what"], counts
    if not totals:
        return
    scans, ends = Counter[tuple[str, ...]](), dict[tuple[str, ...], float]()
    for each in found["failures"]:
        cause = each["outcome"], each["error_code"]
        scans[cause] += each["scans"]
        if each["resume_after"]:
            ends[cause] = max(ends.get(cause, 0.0), each["resume_after"].timestamp())
    stale, ages = ({(each["surface"],): each[name] for each in found["freshness"]} for name in ("stale", "age_seconds"))
    yield "accounts_token_expired", "Accounts whose token must be renewed.", (), {(): totals["expired"]}
    yield "stale_after_seconds", "GRAMHOUSE_STALE_AFTER.", (), {(): totals["stale_after"]}
    yield "stale_accounts", "Accounts that should be fresh and are stale.", ["surface"], stale
    yield "oldest_age_seconds", "Age of the oldest that should be fresh.", ["surface"], ages
    cause = "outcome", "code"
    yield "incomplete_scans", "Scans that are not complete, by outcome and error code.", cause, scans
    yield "cooldown_until_timestamp_seconds", "When the last cooldown of such scans ends.", cause, ends


def report(settings: Settings, now: datetime, form: str = "text", *, is_chosen: bool = False) -> Answer:
    """Return the status as of `now`, with the exit code 3 if something requires attention.

    `is_chosen` is that of `read_status`. Raises as that does.
    """
    found = read_status(settings, now, is_chosen=is_chosen)
    lines = _describe(found) if form == "text" else [Text(metrics(found))]
    return Answer(found, lines, ExitCode.PARTIAL if found["attention"] else ExitCode.COMPLETE)


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
    if form == "openmetrics" and as_json:
        raise SettingsError("--json and --format openmetrics cannot be combined. Fix: use one of them.")
    try:
        settings, is_chosen = load(warehouse=warehouse, snapshot=snapshot), snapshot is not None
        return report(settings, SystemClock().now(), form, is_chosen=is_chosen)
    except (SettingsError, WarehouseError, BucketError, OSError):
        if form == "openmetrics":
            out.out(metrics(None))
        raise

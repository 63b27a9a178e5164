"""`gramhouse status`: the state of data and runs, read from the snapshot and the state beside the warehouse.

It does not open the warehouse, so it never waits for a writer. Text, JSON, metrics and exit code show one list of
findings.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from humanize import naturaldelta
from rich.console import RenderableType
from rich.text import Text

from connectors.warehouse.queries.reader import Record, Snapshot, open_snapshot
from connectors.warehouse.storage.identity import read_warehouse
from connectors.warehouse.storage.sql import statements
from flows.cli.options import WarehouseOptions, current, current_snapshot
from flows.cli.terminal import DONE, Answer, finding_line, without_control_characters
from flows.clock import SystemClock
from flows.config.errors import ExitCode, SettingsError
from flows.config.settings import Settings
from flows.reporting.findings import LOST, list_findings
from flows.reporting.run_report import NO_DATA, Data, Reader, RunReport, last_report
from flows.reporting.words import count, join, moment, run_title, span
from models.erasure import UNFINISHED
from models.feeds import FEEDS
from models.files import SnapshotMissing, WarehouseError
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

_ENDED = (RunState.COMPLETE, RunState.PARTIAL)
_LOST = (RunState.FAILED, RunState.INTERRUPTED)


def read_status(settings: Settings, now: datetime, *, is_chosen: bool = False) -> Record:
    """Return the status as of `now` as a document; its `attention` are those of REASONS that hold.

    A snapshot of another warehouse is a problem, unless it `is_chosen`: then it is shown without the state.

    Raises BucketError, and WarehouseError, such as SnapshotMissing, if neither a snapshot nor a run can be read.
    """
    file, state = current_snapshot(settings), current(settings)
    problem = report = totals = None
    try:
        with open_snapshot(file) as snapshot:
            state = state.of(snapshot, settings.snapshot, is_chosen=is_chosen)
            totals, report = _read_data(snapshot, settings, now)
    except WarehouseError as error:
        if not (state.runs or state.command or state.writing):
            raise
        if not isinstance(error, SnapshotMissing):
            problem = str(error)
        elif any(run["published_at"] for run in state.runs):
            problem = f"There is no snapshot at {file}, but a run published one. Fix: `gramhouse publish`."
    runs, data = state.runs, report.data if report else NO_DATA
    last = next(iter(runs), None)
    command = state.command if state.command and state.command["state"] != RunState.COMPLETE else None
    unresolved = [run for run in _find_unresolved(runs) if run is not last]
    problems = {
        "status_file": state.problem,
        "snapshot_problem": problem,
        "unfinished_erasure": UNFINISHED if state.is_erasing else None,
    }
    codes = {"snapshot_problem": "snapshot_log"}
    found = [Finding.of(codes.get(name, name), Severity.ACTION, text) for name, text in problems.items() if text]
    if state.writing:
        what = "the previous snapshot follows" if totals else "no snapshot has been published yet"
        found.append(Finding("writing", Severity.WARNING, f"{state.writing} is running; {what}"))
    elif last and state.is_unpublished and last["state"] in _ENDED:
        found.append(_describe_unpublished(last))
    for title, shown in (("Last command", [command]), ("Last run", [last]), ("Earlier run", unresolved)):
        found += [_describe_run(title, run) for run in shown if run]
    found += [*(list_findings(report) if report else ()), *_list_fresh(data)]
    found.sort(key=lambda finding: [*Severity].index(finding.severity))
    acted_on = {"failed" if each.code in LOST else each.code for each in found if each.severity is Severity.ACTION}
    acted_on |= {"warning"} if acted_on - {*REASONS} else set()
    return {
        "attention": [reason for reason in REASONS if reason in acted_on],
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
        what = run["kind"], run["selection"]
        if run["state"] in _ENDED and what == ("sync", None):
            break
        if run["state"] in _LOST and what not in known:
            found.append(run)
        if run["state"] in (*_ENDED, *_LOST):
            known.add(what)
    return found


def _describe_unpublished(run: Record) -> Finding:
    # With a code it is why the run is partial.
    found = Finding.of("unpublished", Severity.ACTION, "" if run["error_code"] else run["detail"] or "")
    text = join(": ", ("The snapshot does not contain the last run", found.text))
    return replace(found, text=text, fix=found.fix or "correct the cause, then `gramhouse publish`")


def _describe_run(title: str, run: Record) -> Finding:
    """Return how a run, or another command, ended; the code is its state."""
    severity = Severity.ACTION if run["state"] in _LOST else Severity.INFORMATION
    severity = Severity.WARNING if run["state"] == RunState.PARTIAL else severity
    # That of a complete run is why it was not published.
    found = Finding.of(run["state"], severity, "" if run["state"] == RunState.COMPLETE else run["detail"] or "")
    why = join(": ", (run["error_code"], found.text))
    what = join(" ", (f"{title}: {run_title(run['kind'], run['selection'])}: {run['state']}", why and f"({why})"))
    resume = "run the same command to resume" if run["state"] == RunState.INTERRUPTED else ""
    return replace(found, text=f"{what}, started {moment(run['started_at'])} UTC", fix=found.fix or resume)


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

    def add(name: str, what: str, numbers: Mapping[Any, float | None], *labels: str) -> None:
        gauge = Gauge(f"gramhouse_{name}", what, labels, registry=registry)
        for of, number in numbers.items():
            if number is not None:
                # An error code may be any text that the API sent.
                (gauge.labels(*map(without_control_characters, of)) if labels else gauge).set(number)

    totals = found and found["totals"]
    add("snapshot_readable", "1 if there is a snapshot that can be read.", {(): bool(totals)})
    if found:
        attention = {(reason,): reason in found["attention"] for reason in REASONS}
        add("attention", "1 for each reason that requires attention, else 0.", attention, "reason")
    # Not a run in progress: its time and counts would be missing until it ends, and if it is killed, for good.
    if found and (run := found["last_ended_run"]):
        add(
            "last_run_ended_timestamp_seconds",
            "When the last run that ended did so.",
            {(): run["ended_at"].timestamp()},
        )
        add("last_run_count", "What it landed and changed.", {(name,): run.get(name) for name in _RUN_COUNTS}, "what")
    if found and totals:
        stale, ages = (
            {(row["surface"],): row[name] for row in found["freshness"]} for name in ("stale", "age_seconds")
        )
        add("accounts_token_expired", "Accounts whose token must be renewed.", {(): totals["expired"]})
        add("stale_after_seconds", "GRAMHOUSE_STALE_AFTER.", {(): totals["stale_after"]})
        add("stale_accounts", "Accounts that should be fresh and are stale.", stale, "surface")
        add("oldest_age_seconds", "Age of the oldest that should be fresh.", ages, "surface")
        scans, ends = Counter[tuple[str, ...]](), dict[tuple[str, ...], float]()
        for each in found["failures"]:
            cause = each["outcome"], each["error_code"]
            scans[cause] += each["scans"]
            if each["resume_after"]:
                ends[cause] = max(ends.get(cause, 0.0), each["resume_after"].timestamp())
        cause = "outcome", "code"
        add("incomplete_scans", "Scans that are not complete, by outcome and error code.", scans, *cause)
        add("cooldown_until_timestamp_seconds", "When the last cooldown of such scans ends.", ends, *cause)
    exposition: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return exposition.decode().rstrip("\n")


def status(
    *,
    form: Annotated[Literal["text", "openmetrics"], Parameter("--format")] = "text",
    options: WarehouseOptions = WarehouseOptions(),
) -> Answer:
    """Show what is fresh, stale, expired, failed or interrupted, and why.

    Exit codes: 0 healthy, 1 nothing can be read, 2 wrong usage or configuration, 3 something requires action: stale,
    failed or interrupted scans, a run that was not published, a warning, removals that are undecided for too long, a
    cooldown of more than a day, an interrupted `gramhouse forget`, or a damaged state or snapshot.

    Args:
        form: text, or openmetrics for Prometheus's textfile collector.
    """
    if form == "openmetrics" and options.as_json:
        raise SettingsError("--json and --format openmetrics cannot be combined. Fix: use one of them.")
    try:
        found = read_status(options.settings(), SystemClock().now(), is_chosen=options.snapshot is not None)
    except Exception:
        if form == "openmetrics":
            sys.stdout.write(f"{metrics(None)}\n")
        raise
    return answer(found, form)


def answer(found: Record, form: str = "text") -> Answer:
    """Return the answer of a status, with the exit code 3 if something requires attention."""
    lines = _describe(found) if form == "text" else [Text(metrics(found))]
    return Answer(found, lines, ExitCode.PARTIAL if found["attention"] else ExitCode.COMPLETE)

"""`gramhouse status`: the state of data and runs, read from the snapshot and the state beside the warehouse.

It does not open the warehouse, so it never waits for a writer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from humanize import naturaldelta

from connectors.buckets import BucketError
from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.storage.durable import log_problem
from connectors.warehouse.storage.errors import SnapshotMissing, SnapshotUnreadable, WarehouseError, WarehouseUnusable
from connectors.warehouse.storage.holder import Holder, holder
from connectors.warehouse.storage.identity import read_warehouse
from connectors.warehouse.storage.statements import statements
from flows.cli.current import Current, Record, current, current_snapshot
from flows.cli.options import AsJson, SnapshotFile, WarehouseFile
from flows.cli.output.terminal import DONE, FAIL, WARN, clean, out, print_json, print_row, write_utf8
from flows.clock import SystemClock
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load
from flows.reporting.exit_code import ExitCode
from flows.reporting.findings import LOST, list_findings
from flows.reporting.reader import Reader
from flows.reporting.run_report import NO_DATA, Data, RunReport, last_report
from flows.reporting.words import count, join, moment, run_title, span
from models.erasure import UNFINISHED
from models.feeds import FEEDS
from models.findings import Finding, Severity
from models.runs import RunState

_SQL = statements(__name__)

# The rows about the data that --json has.
_DATA = ("freshness", "stale", "undecided", "recent", "full_overdue", "gaps")

_COUNTS = {"accounts": ("account",), "pages": ("page",), "added": ("new", "new"), "changed": ("changed", "changed")}


@dataclass(frozen=True, slots=True)
class Status:
    """What the state and the snapshot say; `totals` and `report` are None if no snapshot could be read.

    `problem` is what is wrong with the snapshot's files, `writing` the process that holds the warehouse, `unresolved`
    are runs that no later one has made up for.
    """

    state: Current
    writing: Holder | None
    problem: str | None
    last_run: Record | None
    last_ended_run: Record | None
    totals: Record | None = None
    unresolved: Sequence[Record] = ()
    report: RunReport | None = None
    findings: Sequence[Finding] = ()

    @property
    def data(self) -> Data:
        """The rows about the data."""
        return self.report.data if self.report else NO_DATA

    @property
    def is_unpublished(self) -> bool:
        """Whether the last run has ended but is not in the snapshot, and no process is running that could publish."""
        last = self.last_run
        if self.writing is not None or self.problem is not None:
            return False
        if last is None or last["run_id"] is None or last.get("seq") is not None:
            return False
        return last["state"] in {RunState.COMPLETE, RunState.PARTIAL}

    def attention(self) -> dict[str, bool]:
        """Return each possible reason for attention, as a word for programs, and whether it holds."""
        shown = filter(None, (self.last_run, self.state.other(), *self.unresolved))
        ends, codes = {run["state"] for run in shown}, {finding.code for finding in self.findings}
        warnings = self.report.warnings if self.report else ()
        return {
            "interrupted": RunState.INTERRUPTED in ends,
            "unpublished": self.is_unpublished,
            "failed": RunState.FAILED in ends or bool(codes & set(LOST)),
            "warning": any(each.severity is Severity.ACTION for each in warnings),
            **{name: name in codes for name in ("stale", "removals_undecided", "long_cooldown", "full_overdue")},
            "status_file": self.state.is_damaged,
            "snapshot_log": self.problem is not None,
            "unfinished_erasure": self.state.has_unfinished_erasure,
        }

    def to_document(self) -> dict[str, Any]:
        """Return it for programs."""
        failures = self.report.failure_groups if self.report else ()
        return {
            "totals": self.totals,
            "last_run": self.last_run,
            "last_ended_run": self.last_ended_run,
            "unresolved": self.unresolved,
            **{name: self.data[name] for name in _DATA},
            "oldest_age_seconds": max((each["age_seconds"] or 0 for each in self.data["freshness"]), default=None),
            "failures": [asdict(replace(group, usernames=())) for group in failures],
            "findings": [asdict(finding) for finding in self.findings],
            "snapshot_problem": self.problem,
            "unfinished_erasure": UNFINISHED if self.state.has_unfinished_erasure else None,
            "status_file": self.state.problem,
            "writing": str(self.writing) if self.writing else None,
            "attention": [reason for reason, holds in self.attention().items() if holds],
            "last_command": self.state.other(),
        }


def read_status(settings: Settings, now: datetime) -> Status:
    """Return the status as of `now`.

    Raises BucketError, and WarehouseError, such as SnapshotMissing if there is neither a snapshot nor a run.
    """
    snapshot, writing, state = current_snapshot(settings), holder(settings.warehouse), current(settings)
    last = state.last
    # A run that failed to start has no id: cron may repeat it for days, and no run has ended meanwhile.
    ended = last if last and last["run_id"] is not None and last["ended_at"] is not None else None
    found = Status(state, writing, log_problem(snapshot), last, ended)
    try:
        return _read_snapshot(settings, now, found) if found.problem is None else found
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
    return found


def _read_snapshot(settings: Settings, now: datetime, found: Status) -> Status:
    with open_snapshot(settings.snapshot_file()) as snapshot:
        reader = Reader(snapshot, now=now)
        [totals] = reader.records(_SQL["totals"])
        items = dict.fromkeys(sorted(FEEDS), 0) | totals.pop("items")
        last = found.state.runs(snapshot, 1)
        ended = [run for run in last if run["ended_at"] is not None] or reader.records(_SQL["last_ended"])
        shown = {run["run_id"] for run in last}
        if (report := last_report(reader)) is not None and settings.warehouse.exists():
            # On another machine, the mapping of the settings is not that of syncs.
            report = replace(report, mapping_pending=read_warehouse(snapshot.db).mapping != settings.media_mapping())
        return replace(
            found,
            totals=totals | items,
            last_run=next(iter(last), None),
            last_ended_run=next(iter(ended), None),
            unresolved=[run for run in reader.records(_SQL["unresolved"]) if run["run_id"] not in shown],
            report=report,
            findings=list_findings(report) if report else (),
        )


def _describe(run: Mapping[str, Any], title: str, done: str = DONE) -> tuple[str, str]:
    """Return the mark and the line of a run; `done` is the mark of one that is complete."""
    why = join(": ", ((run[name] or "").rstrip(".") for name in ("error_code", "detail")))
    numbers = [count(run[name], *noun) for name, noun in _COUNTS.items() if run.get(name)]
    fix = " Fix: run the same command to resume." if run["state"] == RunState.INTERRUPTED else ""
    began = join(": ", (f"started {moment(run['started_at'])} UTC", ", ".join(numbers)))
    mark = {RunState.COMPLETE: done, RunState.FAILED: FAIL, RunState.INTERRUPTED: FAIL}.get(run["state"], WARN)
    state = f"{run['state']}{f' ({why})' if why else ''}"
    return mark, f"{title}: {run_title(run['kind'], run['selection'])}: {state}, {began}.{fix}"


def _describe_commands(found: Status) -> Iterator[tuple[str, str | None]]:
    """Yield the marks and lines of what commands did, and of what is wrong with the files."""
    state, last, has_snapshot = found.state, found.last_run, found.totals is not None
    if found.writing:
        what = "the previous snapshot follows" if has_snapshot else "no snapshot has been published yet"
        yield WARN, f"{found.writing} is running; {what}."
    yield FAIL if state.is_damaged else WARN, state.problem
    if (other := state.other()) is not None:
        yield _describe(other, "Last command")
    yield FAIL, found.problem
    yield FAIL, UNFINISHED if state.has_unfinished_erasure else None
    if last and (has_snapshot or last["run_id"]):
        # Without a readable snapshot, the run is not marked as good.
        yield _describe(last, "Last run", DONE if has_snapshot else WARN)
    if found.is_unpublished and has_snapshot:
        yield FAIL, "The snapshot does not contain this run. Fix: correct the cause, then `gramhouse publish`."
    yield from (_describe(run, "Earlier run") for run in found.unresolved)


def _describe_data(found: Status) -> Iterator[tuple[str, str]]:
    """Yield the marks and lines of the findings, and of how old the data are of which nothing is stale."""
    for finding in found.findings:
        quiet = "[dim]·[/]" if finding.severity is Severity.INFORMATION else WARN
        yield FAIL if finding.is_alarm or finding.code in LOST else quiet, finding.sentence()
    for fact in found.data["freshness"]:
        never, accounts = fact["never"], fact["accounts"]
        if accounts and not fact["stale"]:
            oldest = f"the oldest {naturaldelta(fact['age_seconds'])} ago"
            rest = f"{never:,} never scanned to the end" if never else oldest
            refreshed = f"{fact['surface']} refreshed within {span(fact['stale_after'])}"
            yield WARN if never else DONE, f"{accounts - never:,} of {count(accounts, 'account')}: {refreshed}; {rest}."
    for fact in found.data["recent"]:
        recent, full = naturaldelta(fact["recent"]), naturaldelta(fact["complete"])
        ages = f"oldest recent scan {recent} ago, oldest full scan {full} ago"
        yield DONE, f"{fact['surface']} of {count(fact['accounts'], 'account')}: {ages}."


def _print(found: Status) -> None:
    """Print the lines, what to act on first."""
    for mark, text in sorted((*_describe_commands(found), *_describe_data(found)), key=lambda line: line[0] != FAIL):
        if text:
            print_row(mark, clean(text))
    if totals := found.totals:
        items = (count(totals[name], feed.noun, name) for name, feed in sorted(FEEDS.items()))
        numbers = ", ".join((count(totals["accounts"], "account"), *items))
        out.print(f"[dim]The snapshot holds {numbers}; published {moment(totals['published_at'])} UTC.[/]")


def report(settings: Settings, now: datetime, *, as_json: bool = False, as_metrics: bool = False) -> ExitCode:
    """Print the status as of `now`; return 0, or 3 if something requires attention. Raises as `read_status` does."""
    found = read_status(settings, now)
    if as_json:
        print_json(found.to_document())
    elif as_metrics:
        from flows.cli.output.openmetrics import metrics

        out.out(metrics(found.to_document(), found.attention()))
    else:
        _print(found)
    return ExitCode.PARTIAL if any(found.attention().values()) else ExitCode.COMPLETE


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

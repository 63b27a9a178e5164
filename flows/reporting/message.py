"""A run as one message, and as JSON."""

from dataclasses import asdict, replace
from typing import Any

from connectors.warehouse.merge.run_counts import RunCounts
from flows.reporting.exit_code import EXIT_OF
from flows.reporting.findings import hint, list_findings
from flows.reporting.run_report import RunReport
from flows.reporting.words import changes, count, join, moment, plain, run_title, span
from models.findings import Severity
from models.runs import OutcomeKind

# The number of findings in a message, and the length of each.
_FINDINGS = 3
_LONGEST = 500

# The values that JSON has under their own names.
_RUN = """
run_id kind reason state resumed_runs accounts accounts_removed accounts_missing restarted mapping_pending requests
pages items started_at snapshot_bytes report
"""
_STOP = "code status correlation_id message hint"


def title(report: RunReport) -> str:
    """Return the name of a run, such as `sync of stories 2026-03-01 06:15`."""
    what = run_title(report.kind, report.selected and plain(report.selected)) if report.kind == "sync" else report.kind
    return f"{what} {moment(report.started_at)}"


def describe_outcomes(report: RunReport) -> str:
    """Return the numbers of scans by outcome, as text."""
    tally = report.outcomes
    return join(", ", (tally[kind] and f"{tally[kind]:,} {kind.replace('_', ' ')}" for kind in OutcomeKind))


def describe_landed(run: RunReport | RunCounts) -> str:
    """Return what a run landed and the resulting changes, as text."""
    pages = join(", ", (run.pages and count(run.pages, "page"), run.items and count(run.items, "record")))
    return join("; ", (pages and f"{pages} landed", pages and f"media: {changes(run.media)}")) or "nothing landed"


def how_found(report: RunReport) -> str:
    """Return how a run found its accounts, in a word; one of what is due may not have listed any."""
    if (report.selected or "").startswith("due"):
        return "due"
    return "listed" if report.kind == "sync" else "chosen"


def describe_run(report: RunReport) -> str:
    """Return the numbers of a run as a sentence, without zeros."""
    found = how_found(report)
    removed = f" ({report.accounts_removed:,} removed)" if report.accounts_removed else ""
    parts = (
        report.accounts and f"{count(report.accounts, 'account')} {found}{removed}",
        describe_landed(report),
        f"scans: {describe_outcomes(report)}",
        report.requests and f"requests: {report.requests:,}",
        report.seconds and f"took {span(report.seconds)}",
    )
    return f"{title(report)} UTC: {join('; ', parts)}."


def to_message(report: RunReport) -> str:
    """Return a run in one line: what is wrong and the fix, its numbers, and those of the runs that it resumed."""
    found = [finding.sentence() for finding in list_findings(report) if finding.severity is not Severity.INFORMATION]
    parts = [plain(sentence, _LONGEST) for sentence in found[:_FINDINGS]]
    parts += [f"And {count(len(found) - _FINDINGS, 'more finding')}."] if len(found) > _FINDINGS else []
    parts += [describe_run(report), *(f"Run {run.run_id} before it: {describe_landed(run)}." for run in report.resumed)]
    return " ".join(parts)


def to_document(report: RunReport) -> dict[str, Any]:
    """Return a run's report for programs; its values may be times and paths."""
    return {name: getattr(report, name) for name in _RUN.split()} | {
        "selection": report.selected,
        "exit_code": EXIT_OF[report.state],
        "findings": [asdict(finding) for finding in list_findings(report)],
        "expired_accounts": len(report.data["expired"]),
        "outcomes": {kind.value: report.outcomes[kind] for kind in OutcomeKind},
        "media": asdict(report.media),
        "resumed": [asdict(run) for run in report.resumed],
        "failure_groups": [
            asdict(replace(group, usernames=())) | {"hint": hint(group, report.as_of)}
            for group in report.failure_groups
        ],
        "stopped_by": report.stopped_by and {name: getattr(report.stopped_by, name) for name in _STOP.split()},
        "seconds": round(report.seconds, 3),
        "snapshot": report.snapshot_url or report.snapshot,
    }

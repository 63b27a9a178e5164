"""A run as one message, and as JSON."""

from collections.abc import Mapping
from dataclasses import asdict, replace

from connectors.warehouse.queries.reader import Record
from flows.reporting.findings import hint, list_findings
from flows.reporting.run_report import RunReport
from flows.reporting.words import changes, count, join, moment, plain, run_title, span
from models.runs import OutcomeKind, Severity

# The number of findings in a message, and the length of each.
_FINDINGS = 3
_LONGEST = 500

# The values that JSON has under their own names.
_RUN = """
run_id kind selection reason state resumed_runs accounts accounts_removed accounts_missing restarted mapping_pending
requests pages items started_at snapshot_bytes report
"""
_STOP = "code status correlation_id message hint"


def title(report: RunReport) -> str:
    """Return the name of a run, such as `sync of stories 2026-03-01 06:15`."""
    what = (
        run_title(report.kind, report.selection and plain(report.selection)) if report.kind == "sync" else report.kind
    )
    return f"{what} {moment(report.started_at)}"


def describe_outcomes(report: RunReport) -> str:
    """Return the numbers of scans by outcome, as text."""
    tally = report.outcomes
    return join(", ", (tally[kind] and f"{tally[kind]:,} {kind.replace('_', ' ')}" for kind in OutcomeKind))


def describe_landed(pages: int, items: int, media: Mapping[str, int]) -> str:
    """Return what a run landed and the resulting changes, as text."""
    landed = join(", ", (pages and count(pages, "page"), items and count(items, "record")))
    return f"{landed} landed; media: {changes(media)}" if landed else "nothing landed"


def describe_resumed(run: Record) -> str:
    """Return a run that was resumed, its state, and what it had landed, as text."""
    landed = describe_landed(run["pages"], run["items"], run["media"])
    return f"{run['kind']} of {moment(run['started_at'])} UTC ({run['state'].value}): {landed}"


def how_found(report: RunReport) -> str:
    """Return how a run found its accounts, in a word; one of what is due may not have listed any."""
    if (report.selection or "").startswith("due"):
        return "due"
    return "listed" if report.kind == "sync" else "chosen"


def describe_run(report: RunReport) -> str:
    """Return the numbers of a run as a sentence, without zeros."""
    found = how_found(report)
    removed = f" ({report.accounts_removed:,} removed)" if report.accounts_removed else ""
    parts = (
        report.accounts and f"{count(report.accounts, 'account')} {found}{removed}",
        describe_landed(report.pages, report.items, report.media),
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
    return " ".join([*parts, describe_run(report), *(f"Before it: {describe_resumed(run)}." for run in report.resumed)])


def to_document(report: RunReport) -> Record:
    """Return a run's report for programs, as what `json_value` makes JSON of."""
    return {name: getattr(report, name) for name in _RUN.split()} | {
        "exit_code": report.exit_code,
        "findings": [asdict(finding) for finding in list_findings(report)],
        "expired_accounts": len(report.data["expired"]),
        "outcomes": {kind.value: report.outcomes[kind] for kind in OutcomeKind},
        "media": report.media,
        "resumed": report.resumed,
        "failure_groups": [
            asdict(replace(group, usernames=())) | {"hint": hint(group, report.as_of)}
            for group in report.failure_groups
        ],
        "stopped_by": report.stopped_by and {name: getattr(report.stopped_by, name) for name in _STOP.split()},
        "seconds": round(report.seconds, 3),
        "snapshot": report.snapshot_url or report.snapshot,
    }

"""A run's report as text and as JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict

from connectors.warehouse.merge.run_counts import RunCounts
from flows.engine.pipeline import RunReport
from flows.reporting.exit_code import EXIT_OF
from flows.reporting.words import changes, count, group_hint, json_value, plain, shortfall
from models.checkpoint import RunKind
from models.runs import OutcomeKind, RunState


def state_name(report: RunReport) -> str:
    """Return the name of a run's state for Prefect's UI."""
    if report.state is RunState.COMPLETE and report.expired:
        return "Completed with expired accounts"
    return {RunState.COMPLETE: "Completed", RunState.PARTIAL: "Partial", RunState.FAILED: "Failed"}[report.state]


def outcomes(report: RunReport) -> str:
    """Return the numbers of partitions by outcome, as text."""
    tally = report.outcomes
    return ", ".join(f"{tally[kind]:,} {kind.replace('_', ' ')}" for kind in OutcomeKind if tally[kind])


_WARNING = 500

# How a run got its accounts.
_FOUND: Mapping[RunKind, str] = {"sync": "listed", "backfill": "chosen"}


def landed(run: RunCounts) -> str:
    """Return what a run landed and the resulting changes, as text."""
    return f"{count(run.pages, 'page')}, {count(run.items, 'record')}; media: {changes(run.media)}"


def sentence(report: RunReport) -> str:
    """Return a run in one line: why it is partial, its numbers, those of the runs that it resumed, and warnings."""
    partial = f"Partial: {shortfall(report.outcomes, report.warnings)}. " if report.state is RunState.PARTIAL else ""
    resumed = "".join(f" Run {run.run_id} before it landed {landed(run)}." for run in report.resumed)
    warnings = "".join(f" {plain(warning.detail, _WARNING)}" for warning in report.warnings)
    return (
        f"{partial}{count(report.accounts, 'account')} {_FOUND[report.kind]}, {count(report.pages, 'page')} landed;"
        f" media: {changes(report.media)}; partitions: {outcomes(report)}; requests: {report.requests:,}."
        f"{resumed}{warnings}"
    )


def to_json(report: RunReport) -> str:
    """Return a run's report as one JSON object, for programs."""
    stopped = report.stopped_by
    return json.dumps(
        {
            "run_id": report.run_id,
            "kind": report.kind,
            "selection": report.selected,
            "reason": report.reason,
            "state": report.state,
            "exit_code": EXIT_OF[report.state],
            "resumed_runs": list(report.resumed_runs),
            "accounts": report.accounts,
            "accounts_removed": report.accounts_removed,
            "accounts_missing": report.accounts_missing,
            "expired_accounts": report.expired,
            "outcomes": {kind.value: report.outcomes[kind] for kind in OutcomeKind},
            "restarted": report.restarted,
            "mapping_pending": report.mapping_pending,
            "requests": report.requests,
            "pages": report.pages,
            "items": report.items,
            "media": asdict(report.media),
            "resumed": [asdict(run) for run in report.resumed],
            "failure_groups": [
                {
                    "outcome": group.outcome,
                    "error_code": group.error_code,
                    "partitions": group.scans,
                    "accounts": group.accounts,
                    "example": str(group.example),
                    "correlation_id": group.example.correlation_id,
                    "detail": group.detail or None,
                    "resume_after": group.resume_after,
                    "hint": group_hint(group, report.started_at),
                }
                for group in report.failure_groups
            ],
            "warnings": [asdict(warning) for warning in report.warnings],
            "stopped_by": None
            if stopped is None
            else {
                "code": stopped.code,
                "status": stopped.status,
                "correlation_id": stopped.correlation_id,
                "message": stopped.message,
                "hint": stopped.hint,
            },
            "started_at": report.started_at,
            "seconds": round(report.seconds, 3),
            "snapshot": report.snapshot_url or str(report.snapshot),
            "snapshot_bytes": report.snapshot_bytes,
            "report": None if report.report is None else str(report.report),
        },
        default=json_value,
    )

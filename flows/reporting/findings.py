"""What a person should know about a run and its data: one list, which every output formats."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from connectors.source.errors import rule_of
from connectors.warehouse.queries.outcomes import FailureGroup
from connectors.warehouse.queries.reader import Record
from flows.reporting.run_report import Data, RunReport
from flows.reporting.words import count, join, moment, span
from models.runs import LONG_COOLDOWN, TOKEN_EXPIRED, Finding, OutcomeKind, Severity, several

LONG_COOLDOWN_WHY = "the API asked for a wait of more than a day"
LONG_COOLDOWN_FIX = "if the service asked for it by mistake, `gramhouse doctor --repair --yes` lifts it"

LOST = (OutcomeKind.FAILED, OutcomeKind.DENIED, OutcomeKind.NOT_FOUND)
"""The outcomes of incomplete scans that a later run does not simply resume."""


def list_findings(report: RunReport) -> list[Finding]:
    """Return what a person should know about a run and the data after it, what to act on first."""
    # Why the run failed or is partial comes before what was known.
    found = [*_failures(report), *report.warnings, *_scans(report.data), *_tokens(report.data), *_records(report)]
    return sorted(found, key=lambda finding: [*Severity].index(finding.severity))


def hint(group: FailureGroup, now: datetime) -> str:
    """Return what a person can do about scans with the same failure, as of `now`; empty for an unknown error code."""
    return LONG_COOLDOWN_FIX if _is_long(group, now) else rule_of(group.error_code).hint


def _is_long(group: FailureGroup, now: datetime) -> bool:
    return group.resume_after is not None and group.resume_after - now > LONG_COOLDOWN


def _failures(report: RunReport) -> Iterator[Finding]:
    """Yield the causes of incomplete scans: the error that stopped the run first, deferred scans last."""
    stop, groups = report.stopped_by, report.failure_groups
    # An error may stop a run before any scan has an outcome.
    if stop and stop.code not in [group.error_code for group in groups]:
        why = join(", correlation id ", (stop.code, stop.correlation_id))
        text = f"The run stopped ({why}): {stop.message.rstrip('.')}"
        yield Finding("failed", Severity.ACTION, text, stop.rule.hint.rstrip("."))
    first = stop and stop.code
    for group in sorted(groups, key=lambda each: (each.error_code != first, each.outcome is OutcomeKind.DEFERRED)):
        yield _failure(group, report.as_of)


def _failure(group: FailureGroup, now: datetime) -> Finding:
    why = join(", correlation id ", (group.error_code, group.examples[0]["correlation_id"]))
    what = "The account catalogue" if group.is_catalogue else count(group.scans, "scan")
    until = group.resume_after and f"until {moment(group.resume_after, seconds=True)} UTC"
    text = join(" ", (what, group.outcome.replace("_", " "), until, why and f"({why})"))
    text = join(": ", (text, group.detail.rstrip(".")))
    code, fix, severity = group.outcome.value, hint(group, now), Severity.ACTION
    if _is_long(group, now):
        code, text = "long_cooldown", f"{text}; {LONG_COOLDOWN_WHY}"
    elif group.outcome is OutcomeKind.DEFERRED:
        severity, fix = Severity.WARNING, ""
        text = f"{text}; a later run resumes {'it' if group.scans == 1 else 'them'}"
    elif group.outcome is OutcomeKind.DENIED:
        fix = join("; then ", (fix, "`gramhouse backfill --failed`"))
    return Finding(code, severity, text, fix, tuple(group.usernames), group.scans)


def _tokens(data: Data) -> Iterator[Finding]:
    if expired := data["expired"]:
        new = sum(each["is_new"] for each in expired)
        text = f"{count(len(expired), 'access token')} expired{f', {new:,} of them newly' if new else ''}"
        fix = "the owner must reconnect the account; the next sync then fetches its media"
        # Only the owner of an account can renew its token.
        yield Finding(TOKEN_EXPIRED, Severity.WARNING, text, fix, _names(expired), len(expired))
    if renewed := data["renewed"]:
        text = f"{count(len(renewed), 'access token')} renewed: syncs fetch the media again"
        yield Finding("token_renewed", Severity.INFORMATION, text, "", _names(renewed), len(renewed))


def _scans(data: Data) -> Iterator[Finding]:
    for each in data["freshness"]:
        if each["stale"]:
            never = each["never"] and f"{each['never']:,} never scanned to the end"
            whose = f"{each['stale']:,} of {count(each['accounts'], 'account')}: {each['surface']}"
            text = f"{whose} not refreshed within {span(each['stale_after'])}"
            text = join("; ", (text, never, f"the oldest is {span(each['age_seconds'])} old"))
            names = _names(row for row in data["stale"] if row["surface"] == each["surface"])
            yield Finding("stale", Severity.ACTION, text, "`gramhouse sync`", names, each["stale"])
    if undecided := _names(data["undecided"]):
        since = moment(data["undecided"][0]["removals_undecided_since"])
        text = (
            f"no missing items of {count(len(undecided), 'account')} were marked as removed or expired since"
            f" {since} UTC, because their scans rejected records"
        )
        fix = "`gramhouse quarantine` lists them; set the path of their ids under [mapping] in gramhouse.toml"
        yield Finding("removals_undecided", Severity.ACTION, text, fix, undecided, len(undecided))
    # If every scan is full, the outcomes already show which partitions are out of date.
    if data["recent"] and (gaps := data["gaps"]):
        text = f"{count(len(gaps), 'scan')} ended early and left a gap, which the next scan reads"
        yield Finding("gap", Severity.WARNING, text, "", _names(gaps), len(gaps))


def _records(report: RunReport) -> Iterator[Finding]:
    data, new = report.data, report.media["quarantined"]
    if quarantine := data["quarantine"]:
        records = sum(each["records"] for each in quarantine)
        text = join(", ", (f"{count(records, 'record')} in quarantine", new and f"{new:,} of them new"))
        text = f"{text}: {quarantine[0]['reason'].rstrip('.')}"
        yield Finding("quarantine", Severity.WARNING, text, "`gramhouse quarantine` lists them", count=records)
    for name, noun in (("new_fields", "new field"), ("retyped_fields", "retyped field")):
        if fields := [f"{each['path']} ({each['type'] or '?'})" for each in data[name]]:
            text = f"{count(len(fields), noun)}: {several(fields)}"
            yield Finding(name, Severity.INFORMATION, text, count=len(fields))
    if report.mapping_pending:
        text, fix = "stored media are read by an earlier mapping", "`gramhouse rebuild` applies the current one"
        yield Finding("mapping_pending", Severity.WARNING, text, fix)
    if report.restarted:
        text = f"{count(report.restarted, 'scan')} restarted from the first page because the cursor was refused"
        yield Finding("restarted", Severity.INFORMATION, text, count=report.restarted)


def _names(rows: Iterable[Record]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row["ig_username"] or row["account_id"] for row in rows))

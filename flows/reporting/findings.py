"""What a person should know about a run and its data: one list, which every output formats."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from connectors.source.errors import hint_for, is_transient
from connectors.warehouse.queries.outcomes import FailureGroup
from flows.reporting.reader import Record
from flows.reporting.run_report import Data, RunReport
from flows.reporting.words import count, moment, several, span
from models.runs import LONG_COOLDOWN, OutcomeKind, RunWarning

LONG_COOLDOWN_WHY = "the API asked for a wait of more than a day"
LONG_COOLDOWN_FIX = "if the service asked for it by mistake, `gramhouse doctor --repair` lifts it"

LOST = (OutcomeKind.FAILED, OutcomeKind.DENIED, OutcomeKind.NOT_FOUND)
"""The outcomes of incomplete scans that a later run does not simply resume."""

TOKEN_EXPIRED = "token_expired"  # noqa: S105 - a code, not a password

# The number of fields named in a text.
_FIELDS = 5


class Severity(StrEnum):
    """Whether a finding needs a person: yes, perhaps, or not."""

    ACTION = "action"
    WARNING = "warning"
    INFORMATION = "information"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: `text` is the cause, `fix` what to do about it, both without a full stop; `accounts` are usernames.

    `code` is a word for programs. An account without a name, and the account catalogue, are not among `accounts`. Texts
    from the API are included as they are: the output that shows a finding makes them harmless.
    """

    code: str
    severity: Severity
    text: str
    fix: str = ""
    accounts: tuple[str, ...] = ()

    @property
    def is_alarm(self) -> bool:
        """Return whether it requires an action of the operator. Only the owner of an account can renew its token."""
        return self.severity is Severity.ACTION and self.code != TOKEN_EXPIRED

    def sentence(self, named: int = 5) -> str:
        """Return the cause, the names of up to `named` accounts, and the fix."""
        names = f" ({several(self.accounts, named)})" if self.accounts else ""
        return f"{self.text}{names}.{f' Fix: {self.fix}.' if self.fix else ''}"


def _names(rows: Iterable[Record]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row["ig_username"] or row["account_id"] for row in rows))


def hint(group: FailureGroup, now: datetime) -> str:
    """Return what a person can do about scans with the same failure, as of `now`; empty for an unknown error code."""
    is_long = group.resume_after is not None and group.resume_after - now > LONG_COOLDOWN
    return LONG_COOLDOWN_FIX if is_long else hint_for(group.error_code)


def _failed(group: FailureGroup, now: datetime) -> Finding:
    trace = group.example.correlation_id
    why = ", ".join(filter(None, (group.error_code, trace and f"correlation id {trace}")))
    until = f" until {moment(group.resume_after, seconds=True)} UTC" if group.resume_after else ""
    what = count(group.scans, "scan") if group.example.surface else "The account catalogue"
    detail = f": {group.detail.rstrip('.')}" if group.detail else ""
    text = f"{what} {group.outcome.replace('_', ' ')}{until}{why and f' ({why})'}{detail}"
    fix = hint(group, now)
    if group.outcome is OutcomeKind.DEFERRED:
        if fix == LONG_COOLDOWN_FIX:
            return Finding("long_cooldown", Severity.ACTION, f"{text}; {LONG_COOLDOWN_WHY}", fix, group.usernames)
        what = "it" if group.scans == 1 else "them"
        return Finding("deferred", Severity.WARNING, f"{text}; a later run resumes {what}", "", group.usernames)
    if group.outcome is OutcomeKind.DENIED:
        fix += "; then `gramhouse backfill --failed`"
    severity = Severity.WARNING if is_transient(group.error_code) else Severity.ACTION
    return Finding(group.outcome.value, severity, text, fix.removeprefix("; then "), group.usernames)


def _tokens(data: Data) -> Iterator[Finding]:
    if expired := data["expired"]:
        new = sum(each["is_new"] for each in expired)
        newly = " newly" if new == len(expired) else ""
        text = f"{count(len(expired), 'access token')}{newly} expired"
        text += f", {new:,} of them newly" if 0 < new < len(expired) else ""
        fix = "the owner must reconnect the account; the next sync then fetches its media"
        yield Finding(TOKEN_EXPIRED, Severity.ACTION, text, fix, _names(expired))
    if renewed := data["renewed"]:
        text = f"{count(len(renewed), 'access token')} renewed: syncs fetch the media again"
        yield Finding("token_renewed", Severity.INFORMATION, text, "", _names(renewed))


def _scans(report: RunReport) -> Iterator[Finding]:
    data = report.data
    for each in data["freshness"]:
        if each["stale"]:
            never = f"; {each['never']:,} never scanned to the end" if each["never"] else ""
            text = (
                f"{each['stale']:,} of {count(each['accounts'], 'account')}: {each['surface']} not refreshed within"
                f" {span(each['stale_after'])}{never}; the oldest is {span(each['age_seconds'])} old"
            )
            names = _names(row for row in data["stale"] if row["surface"] == each["surface"])
            yield Finding("stale", Severity.ACTION, text, "`gramhouse sync`", names)
    if undecided := data["undecided"]:
        since = moment(undecided[0]["removals_undecided_since"])
        text = (
            f"no missing items of {count(len(_names(undecided)), 'account')} were marked as removed or expired since"
            f" {since} UTC, because their scans rejected records"
        )
        fix = "`gramhouse quarantine` lists them; set the path of their ids under [mapping] in gramhouse.toml"
        yield Finding("removals_undecided", Severity.ACTION, text, fix, _names(undecided))
    if overdue := data["full_overdue"]:
        text = (
            f"the last full scan of the posts of {count(len(overdue), 'account')} is more than twice as old as"
            f" GRAMHOUSE_FULL_REFRESH_EVERY allows, the oldest of {moment(overdue[0]['complete_at'])} UTC"
        )
        fix = "increase GRAMHOUSE_FULL_REFRESH_BUDGET"
        yield Finding("full_overdue", Severity.ACTION, text, fix, _names(overdue))
    # If every scan is full, the outcomes already show which partitions are out of date.
    if data["recent"] and (gaps := data["gaps"]):
        text = f"{count(len(gaps), 'scan')} ended early and left a gap, which the next scan reads"
        yield Finding("gap", Severity.WARNING, text, "", _names(gaps))


def _records(report: RunReport) -> Iterator[Finding]:
    data = report.data
    if quarantine := data["quarantine"]:
        new = f", {report.media.quarantined:,} of them new" if report.media.quarantined else ""
        records, why = count(sum(each["records"] for each in quarantine), "record"), quarantine[0]["reason"].rstrip(".")
        fix = "`gramhouse quarantine` lists them"
        yield Finding("quarantine", Severity.WARNING, f"{records} in quarantine{new}: {why}", fix)
    for name, noun in (("new_fields", "new field"), ("retyped_fields", "retyped field")):
        if fields := data[name]:
            shown = [f"{each['path']} ({each['type'] or '?'})" for each in fields[:_FIELDS]]
            more = f" and {len(fields) - len(shown):,} more" if len(fields) > len(shown) else ""
            text = f"{count(len(fields), noun)}: {', '.join(shown)}{more}"
            yield Finding(name, Severity.INFORMATION, text)
    if report.mapping_pending:
        text, fix = "stored media are read by an earlier mapping", "`gramhouse rebuild` applies the current one"
        yield Finding("mapping_pending", Severity.WARNING, text, fix)
    if report.restarted:
        text = f"{count(report.restarted, 'scan')} restarted from the first page because the cursor was refused"
        yield Finding("restarted", Severity.INFORMATION, text)


def _warned(warning: RunWarning) -> Finding:
    quiet = Severity.WARNING if warning.hint else Severity.INFORMATION
    severity = Severity.ACTION if warning.makes_partial else quiet
    return Finding(warning.code, severity, warning.detail.rstrip("."), (warning.hint or "").rstrip("."))


def list_findings(report: RunReport) -> list[Finding]:
    """Return what a person should know about a run and the data after it, what to act on first."""
    stop = report.stopped_by
    # The error that stopped the run first, deferred scans last.
    groups = sorted(
        report.failure_groups,
        key=lambda group: (stop is None or group.error_code != stop.code, group.outcome is OutcomeKind.DEFERRED),
    )
    found = [_failed(group, report.as_of) for group in groups]
    # An error may stop a run before any scan has an outcome.
    if stop is not None and all(group.error_code != stop.code for group in groups):
        trace = f", correlation id {stop.correlation_id}" if stop.correlation_id else ""
        text = f"The run stopped ({stop.code}{trace}): {stop.message.rstrip('.')}"
        found.insert(0, Finding("failed", Severity.ACTION, text, stop.hint.rstrip(".")))
    # Why the run is partial comes before what was known.
    found += [_warned(warning) for warning in report.warnings if warning.makes_partial]
    found += [*_tokens(report.data), *_scans(report), *_records(report)]
    known = {finding.code for finding in found}
    found += [_warned(warning) for warning in report.warnings if warning.code not in known]
    if report.accounts_removed and all(warning.code != "accounts_removed" for warning in report.warnings):
        text = f"{count(report.accounts_removed, 'account')} marked removed: no longer in the catalogue"
        found.append(Finding("accounts_removed", Severity.INFORMATION, text))
    order = list(Severity)
    return sorted(found, key=lambda finding: order.index(finding.severity))

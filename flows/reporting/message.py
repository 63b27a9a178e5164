"""A run for people and programs: one line, JSON, and what Prefect gets: a page in Markdown, and events."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from connectors.warehouse.queries.reader import Record
from flows.reporting.findings import hint, list_findings
from flows.reporting.run_report import RunReport
from flows.reporting.words import changes, code, count, join, json_value, moment, plain, run_title, span, tally
from models.runs import TOKEN_EXPIRED, Finding, OutcomeKind, RunState, Severity, several

# The number of findings in a message, and the length of each.
_FINDINGS = 3
_LONGEST = 500

# The most accounts in a text and in a list for Prefect, so that an event is small with 100,000 accounts.
_NAMED = 20
_LISTED = 50

_HEADINGS = {
    Severity.ACTION: "Action required",
    Severity.WARNING: "Warnings",
    Severity.INFORMATION: "Information",
}

# The events about accounts and data, and the findings that each is about.
_ABOUT = {
    "gramhouse.accounts": {"accounts_removed", "accounts_missing"},
    "gramhouse.tokens": {TOKEN_EXPIRED, "token_renewed"},
    "gramhouse.stale": {"stale"},
    "gramhouse.drift": {"new_fields", "retyped_fields"},
}

# The values that JSON has under their own names.
_RUN = """
run_id kind selection reason state resumed_runs accounts accounts_removed accounts_missing restarted mapping_pending
requests pages items started_at snapshot_bytes report exit_code media resumed
"""
_STOP = "code status correlation_id message"

Event = dict[str, Any]
"""The arguments of Prefect's `emit_event`. Automations match labels of `resource`; `payload` has a `sentence`."""


def title(report: RunReport) -> str:
    """Return the name of a run, such as `sync of stories 2026-03-01 06:15`."""
    selection = plain(report.selection or "") if report.kind == "sync" else None
    return f"{run_title(report.kind, selection)} {moment(report.started_at)}"


def list_numbers(report: RunReport) -> Iterator[tuple[str, str]]:
    """Yield what a run did, also before in those that it resumed, without zeros: names and texts."""
    for run in report.resumed:
        landed = f"{count(run['pages'], 'page')}, {count(run['items'], 'record')}, {changes(run['media'])}"
        yield "earlier", f"{run['kind']} of {moment(run['started_at'])} UTC ({run['state']}): {landed}"
    if report.accounts:
        # One of what is due may not have listed any.
        is_due = (report.selection or "").startswith("due")
        removed = f" ({report.accounts_removed:,} removed)" if report.accounts_removed else ""
        found = "due" if is_due else "listed" if report.kind == "sync" else "chosen"
        yield found, f"{count(report.accounts, 'account')}{removed}"
    if report.state is not RunState.COMPLETE:
        yield "scans", tally({kind: report.outcomes[kind] for kind in OutcomeKind})
    if report.pages:
        yield "landed", f"{count(report.pages, 'page')}, {count(report.items, 'record')}"
        yield "media", changes(report.media)
    if report.requests:
        yield "requests", f"{report.requests:,}"


def describe_run(report: RunReport) -> str:
    """Return the numbers of a run as a sentence."""
    numbers = (f"{name} {text}" for name, text in list_numbers(report))
    return f"{title(report)} UTC: {'; '.join((*numbers, f'took {span(report.seconds)}'))}."


def to_message(report: RunReport) -> str:
    """Return a run in one line: what is wrong and the fix, and its numbers."""
    found = [finding.sentence() for finding in list_findings(report) if finding.severity is not Severity.INFORMATION]
    parts = [plain(sentence, _LONGEST) for sentence in found[:_FINDINGS]]
    parts += [f"And {count(len(found) - _FINDINGS, 'more finding')}."] if len(found) > _FINDINGS else []
    return " ".join([*parts, describe_run(report)])


def to_document(report: RunReport) -> Record:
    """Return a run's report for programs, as what `json_value` makes JSON of."""
    stop = report.stopped_by
    return {name: getattr(report, name) for name in _RUN.split()} | {
        "findings": [asdict(finding) for finding in list_findings(report)],
        "expired_accounts": len(report.data["expired"]),
        "outcomes": {kind.value: report.outcomes[kind] for kind in OutcomeKind},
        "failure_groups": [
            asdict(replace(group, usernames=())) | {"hint": hint(group, report.as_of)}
            for group in report.failure_groups
        ],
        "stopped_by": stop and {name: getattr(stop, name) for name in _STOP.split()} | {"hint": stop.rule.hint},
        "seconds": round(report.seconds, 3),
        "snapshot": report.snapshot_url or report.snapshot,
    }


def to_markdown(report: RunReport, report_url: str | None = None) -> str:
    """Return a run's page: its findings first, then the scans of each surface.

    Text from outside is only in code spans. `report_url` is the address of the HTML report.
    """
    found = list_findings(report)
    is_well = report.state is RunState.COMPLETE and all(finding.severity is Severity.INFORMATION for finding in found)
    parts = [f"## {report.state.capitalize()}{': nothing needs attention' if is_well else ''}", describe_run(report)]
    if report.report:
        link = f"[Report with charts]({report_url})" if report_url else None
        parts.append(link or f"Report with charts: {code(str(report.report), 200)}")
    for severity, heading in _HEADINGS.items():
        if these := [_to_item(finding) for finding in found if finding.severity is severity]:
            parts += [f"### {heading}", "\n".join(these)]
    if report.kind != "sync" and report.selection:
        why = report.reason and f"because {code(report.reason, 200)}"
        parts.append(join(", ", (f"Scanned: {code(report.selection, 200)}", why)))
    scans = {each["surface"] or "account catalogue": tally(each["outcomes"]) for each in report.data["outcomes"]}
    parts.append("\n".join(f"- {what}: {ends}" for what, ends in scans.items()))
    return "\n\n".join(parts)


def _to_item(finding: Finding) -> str:
    names = f": {code(several(finding.accounts, _NAMED), 2 * _LONGEST)}" if finding.accounts else ""
    fix = f"\n  - Fix: {code(finding.fix, _LONGEST)}" if finding.fix else ""
    return f"- {code(finding.text, _LONGEST)}{names}{fix}"


def list_events(report: RunReport, retry: str | None = None) -> list[Event]:
    """Return the events of a run that has ended: its result, and accounts, tokens, stale surfaces and drift if any.

    If the run is retried, as `retry` says, there are no events of failure or stale surfaces; only the last attempt has
    them.
    """
    labels = {"kind": report.kind, "scope": report.scope, "state": report.state.value}
    # A run that is retried has not ended.
    name = "gramhouse.retry" if retry else f"gramhouse.run.{report.state.value}"
    made = [_event(report, name, join(". ", (retry, to_message(report))), to_document(report), labels)]
    found = list_findings(report)
    newly = "yes" if any(each["is_new"] for each in report.data["expired"]) else "no"
    for name, codes in _ABOUT.items():
        about = [finding for finding in found if finding.code in codes]
        if about and not (retry and "stale" in codes):
            more = {"newly_expired": newly} if TOKEN_EXPIRED in codes else {}
            text = " ".join(plain(finding.sentence(_NAMED), 2 * _LONGEST) for finding in about)
            payload = {"findings": [asdict(finding) for finding in about]}
            made.append(_event(report, name, text, payload, labels | more))
    return made


def _event(report: RunReport, name: str, text: str, payload: Record, labels: Mapping[str, str]) -> Event:
    resource = {"prefect.resource.id": f"gramhouse.run.{report.run_id}", "prefect.resource.name": title(report)}
    resource |= {f"gramhouse.{key}": value for key, value in labels.items()}
    return {"event": name, "resource": resource, "payload": {**_harmless(payload), "sentence": text}}


def _harmless(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return what JSON has for a value, with texts that are harmless in chats and mails, and short lists."""
    if isinstance(value, Mapping):
        return {name: _harmless(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_harmless(each) for each in value[:_LISTED]]
    return value if value is None or isinstance(value, int | float) else plain(json_value(value), _LONGEST)


def failure_event(text: str) -> Event:
    """Return the event of a run that ended without a report."""
    labels = {
        "prefect.resource.id": "gramhouse.run.without-report",
        "prefect.resource.name": "a run without a report",
        "gramhouse.state": "failed",
    }
    sentence = f"A run ended without a report: {plain(text, _LONGEST)}"
    return {"event": "gramhouse.run.failed", "resource": labels, "payload": {"sentence": sentence}}

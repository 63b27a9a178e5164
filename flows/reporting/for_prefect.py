"""What Prefect gets of a run: its page in the UI, as Markdown, and its events: at most one of each name."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from flows.reporting.findings import Severity, list_findings
from flows.reporting.message import describe_landed, numbers, title, to_json, to_message
from flows.reporting.run_report import RunReport
from flows.reporting.words import code, count, moment, plain
from models.runs import OutcomeKind

TOKENS = "gramhouse.tokens"
STALE = "gramhouse.stale"
DRIFT = "gramhouse.drift"
ACCOUNTS = "gramhouse.accounts"
FAILED = "gramhouse.run.failed"
# Not gramhouse.run.*, because the run has not ended.
RETRY = "gramhouse.retry"

# The findings of each event.
_CODES = {
    ACCOUNTS: {"accounts_removed", "accounts_missing"},
    TOKENS: {"token_expired", "token_renewed"},
    STALE: {"stale"},
    DRIFT: {"new_fields", "retyped_fields"},
}

# Limits of accounts named in a sentence, and of those in a payload, so that an event is small with 100,000 accounts.
_NAMED = 20
_LISTED = 50
_LONGEST = 500


def markdown(report: RunReport, report_url: str | None = None) -> str:
    """Return the page: the findings first, then the state of the data.

    Text from outside is only in code spans. `report_url` is the address of the HTML report.
    """
    # Not escaped as HTML: code spans show any text literally.
    environment = Environment(  # noqa: S701
        loader=PackageLoader("flows.reporting"), lstrip_blocks=True, trim_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {"code": code, "count": count, "describe_landed": describe_landed, "moment": moment}
    outcomes: dict[str, dict[str, int]] = {}
    for each in report.data["outcomes"]:
        outcomes.setdefault(each["surface"], {})[each["outcome"]] = each["scans"]
    found = list_findings(report)
    return environment.get_template("artifact.md.j2").render(
        findings=found,
        kinds=[kind.value for kind in OutcomeKind if any(kind in scans for scans in outcomes.values())],
        numbers=numbers(report),
        outcomes=outcomes,
        quiet=all(finding.severity is Severity.INFORMATION for finding in found),
        report=report,
        report_url=report_url,
    )


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its name, labels of its resource that automations match, and a payload with a `sentence` for users."""

    name: str
    labels: Mapping[str, str]
    payload: Mapping[str, Any] = field(default_factory=dict)


def _plain(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return JSON whose texts are harmless in chats and mails, and whose lists are short."""
    if isinstance(value, str):
        return plain(value, _LONGEST)
    if isinstance(value, list):
        return [_plain(each) for each in value[:_LISTED]]
    return {name: _plain(each) for name, each in value.items()} if isinstance(value, dict) else value


def _event(report: RunReport, name: str, text: str, payload: Mapping[str, Any], **labels: str) -> Event:
    given = {"kind": report.kind, "scope": report.scope, "state": report.state.value, **labels}
    return Event(
        name,
        {
            "prefect.resource.id": f"gramhouse.run.{report.run_id}",
            "prefect.resource.name": title(report),
            **{f"gramhouse.{key}": value for key, value in given.items()},
        },
        {**_plain(payload), "sentence": text},
    )


def _found(report: RunReport) -> Iterator[Event]:
    """Yield the events of what a run found."""
    newly = any(each["is_new"] for each in report.data["expired"])
    for name, codes in _CODES.items():
        if found := [finding for finding in list_findings(report) if finding.code in codes]:
            labels = {"newly_expired": "yes" if newly else "no"} if name == TOKENS else {}
            text = " ".join(plain(finding.sentence(_NAMED), 2 * _LONGEST) for finding in found)
            payload = {"findings": [asdict(finding) | {"accounts": [*finding.accounts]} for finding in found]}
            yield _event(report, name, text, payload, **labels)


def events(report: RunReport, retry: str | None = None) -> tuple[Event, ...]:
    """Return the events of a run that has ended: its result, and accounts, tokens, stale surfaces and drift if any.

    If the run is retried, as `retry` says, there are no events of failure or stale surfaces; only the last attempt has
    them.
    """
    document = json.loads(to_json(report))
    # The counts at the top level, as in the table `runs`.
    payload = {**document, **document["media"], "resumed": [{**run, **run["media"]} for run in document["resumed"]]}
    if retry is None:
        return (_event(report, f"gramhouse.run.{report.state.value}", to_message(report), payload), *_found(report))
    run = _event(report, RETRY, f"{retry}. {to_message(report)}", payload)
    return (run, *(event for event in _found(report) if event.name != STALE))


def failure_event(text: str) -> Event:
    """Return the event of a run that ended without a report."""
    return Event(
        FAILED,
        {
            "prefect.resource.id": "gramhouse.run.without-report",
            "prefect.resource.name": "a run without a report",
            "gramhouse.state": "failed",
        },
        {"sentence": f"A run ended without a report: {plain(text, _LONGEST)}"},
    )

"""What Prefect gets of a run: its page in the UI, as Markdown, and its events: at most one of each name."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from flows.reporting.findings import list_findings
from flows.reporting.message import describe_resumed, describe_run, title, to_document, to_message
from flows.reporting.run_report import RunReport
from flows.reporting.words import code, join, json_value, plain
from models.runs import TOKEN_EXPIRED, OutcomeKind

STALE = "gramhouse.stale"

# The events about accounts and data, and the findings that each is about.
_ABOUT = {
    "gramhouse.accounts": {"accounts_removed", "accounts_missing"},
    "gramhouse.tokens": {TOKEN_EXPIRED, "token_renewed"},
    STALE: {"stale"},
    "gramhouse.drift": {"new_fields", "retyped_fields"},
}

Event = dict[str, Any]
"""The arguments of Prefect's `emit_event`. Automations match labels of `resource`; `payload` has a `sentence`."""

# Limits of accounts named in a sentence, and of those in a payload, so that an event is small with 100,000 accounts.
_NAMED = 20
_LISTED = 50
_LONGEST = 500


def markdown(report: RunReport, report_url: str | None = None) -> str:
    """Return the page: the findings first, then the scans of each surface.

    Text from outside is only in code spans. `report_url` is the address of the HTML report.
    """
    # Not escaped as HTML: code spans show any text literally.
    environment = Environment(  # noqa: S701
        loader=PackageLoader("flows.reporting"), lstrip_blocks=True, trim_blocks=True, undefined=StrictUndefined
    )
    environment.filters |= {"code": code, "resumed": describe_resumed}
    outcomes: dict[str, dict[str, int]] = {}
    for each in report.data["outcomes"]:
        outcomes.setdefault(each["surface"], {})[each["outcome"]] = each["scans"]
    return environment.get_template("artifact.md.j2").render(
        findings=list_findings(report),
        kinds=[kind.value for kind in OutcomeKind if any(kind in scans for scans in outcomes.values())],
        numbers=describe_run(report),
        outcomes=outcomes,
        report=report,
        report_url=report_url,
    )


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
        if about and not (retry and name == STALE):
            more = {"newly_expired": newly} if TOKEN_EXPIRED in codes else {}
            text = " ".join(plain(finding.sentence(_NAMED), 2 * _LONGEST) for finding in about)
            payload = {"findings": [asdict(finding) for finding in about]}
            made.append(_event(report, name, text, payload, labels | more))
    return made


def _event(report: RunReport, name: str, text: str, payload: dict[str, Any], labels: Mapping[str, str]) -> Event:
    resource = {"prefect.resource.id": f"gramhouse.run.{report.run_id}", "prefect.resource.name": title(report)}
    resource |= {f"gramhouse.{key}": value for key, value in labels.items()}
    return {"event": name, "resource": resource, "payload": {**_plain(payload), "sentence": text}}


def _plain(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return what JSON has for a value, with texts that are harmless in chats and mails, and short lists."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value[:_LISTED]]
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

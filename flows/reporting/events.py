"""The events of a run: at most one of each name, with labels that automations match."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flows.reporting.findings import findings
from flows.reporting.report import sentence, title, to_json
from flows.reporting.run_report import RunReport
from flows.reporting.words import plain

TOKENS = "gramhouse.tokens"
STALE = "gramhouse.stale"
DRIFT = "gramhouse.drift"
ACCOUNTS = "gramhouse.accounts"
FAILED = "gramhouse.run.failed"
# Not gramhouse.run.*, because the run has not ended.
RETRY = "gramhouse.retry"

# Limits of accounts named in a sentence, and of those in a payload, so that an event is small with 100,000 accounts.
_NAMED = 20
_LISTED = 50
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its name, the labels of its resource, and a payload with a `sentence` for users."""

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


def _flag(some: object) -> str:
    return "yes" if some else "no"


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
    data = report.data
    tokens = {
        "newly_expired": [each for each in data["expired"] if each["is_new"]],
        "recovered": data["renewed"],
        "still_expired": [each for each in data["expired"] if not each["is_new"]],
    }
    stale = {each["surface"]: each["stale"] for each in data["freshness"] if each["stale"]}
    drift = {name: [each["path"] for each in data[f"{name}_fields"]] for name in ("new", "retyped")}
    accounts = {"removed": report.accounts_removed, "missing": report.accounts_missing}
    for name, codes, payload, labels in (
        (ACCOUNTS, {"accounts_removed", "accounts_missing"}, accounts, accounts),
        (
            TOKENS,
            {"token_expired", "token_renewed"},
            {
                group: {
                    "total": len(some),
                    "accounts": [{name: each[name] for name in ("account_id", "ig_username")} for each in some],
                }
                for group, some in tokens.items()
            },
            tokens,
        ),
        (STALE, {"stale"}, {"overdue": stale}, stale),
        (DRIFT, {"new_fields", "retyped_fields"}, drift, drift),
    ):
        sentences = [finding.sentence(_NAMED) for finding in findings(report) if finding.code in codes]
        if sentences:
            flags = {label: _flag(some) for label, some in labels.items()}
            yield _event(report, name, " ".join(plain(each, 2 * _LONGEST) for each in sentences), payload, **flags)


def events(report: RunReport, retry: str | None = None) -> tuple[Event, ...]:
    """Return the events of a run that has ended: its result, and accounts, tokens, stale surfaces and drift if any.

    If the run is retried, as `retry` says, there are no events of failure or stale surfaces; only the last attempt has
    them.
    """
    document = json.loads(to_json(report))
    # The counts at the top level, as in the table `runs`.
    payload = {**document, **document["media"], "resumed": [{**run, **run["media"]} for run in document["resumed"]]}
    if retry is None:
        return (_event(report, f"gramhouse.run.{report.state.value}", sentence(report), payload), *_found(report))
    run = _event(report, RETRY, f"{retry}. {sentence(report)}", payload)
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

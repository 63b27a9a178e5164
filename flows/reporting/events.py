"""The events of a run: at most one of each name, with labels that automations match."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from flows.engine.retrying import Retry
from flows.reporting.headline import LOST, headline, overdue, run_title
from flows.reporting.summary import COUNTS, Summary, Token, Truncated
from flows.reporting.words import count, group_fix, group_hint, plain, span

TOKENS = "gramhouse.tokens"
STALE = "gramhouse.stale"
DRIFT = "gramhouse.drift"
ACCOUNTS = "gramhouse.accounts"
FAILED = "gramhouse.run.failed"
# Not gramhouse.run.*, because the run has not ended.
RETRY = "gramhouse.retry"

_NAMED = 20
_MESSAGE = 500


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its name, the labels of its resource, and a payload with a `sentence` for users."""

    name: str
    labels: Mapping[str, str]
    payload: Mapping[str, Any] = field(default_factory=dict)


def _flag(some: object) -> str:
    return "yes" if some else "no"


def _labels(summary: Summary, **more: str) -> dict[str, str]:
    run = summary.run
    parts = {"kind": run.kind, "scope": summary.scope, "state": run.state.value, **more}
    return {
        "prefect.resource.id": f"gramhouse.run.{run.run_id}",
        "prefect.resource.name": plain(run_title(run)),
        **{f"gramhouse.{name}": value for name, value in parts.items()},
    }


def _names(names: Iterable[str], total: int) -> str:
    parts = [plain(name) for name in names][:_NAMED]
    more = total - len(parts)
    return ", ".join(parts) + (f" and {more:,} more" if more else "")


def _accounts(some: Truncated[Token]) -> dict[str, Any]:
    return {
        "total": some.total,
        "accounts": [
            {"account_id": plain(token.account_id), "ig_username": plain(token.ig_username)} for token in some.shown
        ],
    }


def _named(some: Truncated[Token]) -> str:
    return _names((token.ig_username for token in some.shown), some.total)


def _token_lines(summary: Summary) -> Iterator[str]:
    tokens = summary.tokens
    if tokens.newly.total:
        yield (
            f"{count(tokens.newly.total, 'account')} newly expired: {_named(tokens.newly)}."
            " Their owners must reconnect them; the next sync then fetches their media."
        )
    if tokens.recovered.total:
        yield f"Active again: {_named(tokens.recovered)}."
    if tokens.still.total:
        yield f"Still expired: {count(tokens.still.total, 'account')}."


def _tokens(summary: Summary) -> Iterator[Event]:
    tokens = summary.tokens
    groups = {"newly_expired": tokens.newly, "recovered": tokens.recovered, "still_expired": tokens.still}
    if any(some.total for some in groups.values()):
        yield Event(
            TOKENS,
            _labels(summary, **{name: _flag(some.total) for name, some in groups.items()}),
            {
                "sentence": " ".join(_token_lines(summary)),
                **{name: _accounts(some) for name, some in groups.items()},
            },
        )


def _failure_groups(summary: Summary) -> list[dict[str, Any]]:
    return [
        {
            "outcome": group.outcome.value,
            "error_code": plain(group.error_code),
            "scans": group.scans,
            "accounts": group.accounts,
            "detail": plain(group.detail, _MESSAGE),
            "hint": group_hint(group, summary.run.started_at),
            "correlation_id": plain(group.examples[0].correlation_id or "") if group.examples else "",
            "resume_after": group.resume_after.isoformat() if group.resume_after else None,
        }
        for group in summary.failure_groups.shown
    ]


def _warnings(summary: Summary) -> list[dict[str, Any]]:
    return [
        {
            **asdict(warning),
            "code": plain(warning.code),
            "detail": plain(warning.detail, _MESSAGE),
            "hint": plain(warning.hint or "", _MESSAGE),
        }
        for warning in summary.warnings
    ]


def _first(summary: Summary) -> str:
    groups = summary.failure_groups.shown
    if not groups:
        return ""
    # Deferred scans rarely need action.
    first = next((group for group in groups if group.outcome in LOST), groups[0])
    parts = ": ".join(filter(None, (plain(first.error_code), plain(first.detail, _MESSAGE).rstrip("."))))
    todo = f" {group_fix(first, summary.run.started_at)}".rstrip()
    return f" First: {count(first.scans, 'scan')} {first.outcome.replace('_', ' ')}, {parts}.{todo}"


def _run(summary: Summary) -> Event:
    run, groups, warnings = summary.run, _failure_groups(summary), _warnings(summary)
    partial = "".join(
        f" {each['detail']}" + (f" Fix: {each['hint']}" if each["hint"] else "")
        for each in warnings
        if each["makes_partial"]
    )
    return Event(
        f"gramhouse.run.{run.state.value}",
        _labels(summary),
        {
            "sentence": headline(summary) + _first(summary) + partial,
            "run_id": run.run_id,
            "seconds": run.seconds,
            "accounts": run.accounts,
            "accounts_missing": run.accounts_missing,
            **{name: getattr(run, name) for name in COUNTS},
            "resumed": [
                {"run_id": each.run_id, **{name: getattr(each, name) for name in COUNTS}} for each in summary.resumed
            ],
            "failure_groups": groups,
            "warnings": warnings,
        },
    )


def _accounts_gone(summary: Summary) -> Iterator[Event]:
    removed, missing = summary.run.accounts_removed, summary.run.accounts_missing
    if removed or missing:
        parts = [
            f"{count(number, 'account')} {what}."
            for number, what in (
                (removed, "marked removed: the catalogue no longer lists them"),
                (missing, "missing from the catalogue but not marked as removed. Fix: check the API key's grants"),
            )
            if number
        ]
        yield Event(
            ACCOUNTS,
            _labels(summary, removed=_flag(removed), missing=_flag(missing)),
            {"sentence": " ".join(parts), "removed": removed, "missing": missing},
        )


def _stale(summary: Summary) -> Iterator[Event]:
    if parts := overdue(summary):
        limit = span(summary.stale_after.total_seconds())
        surfaces = {each.surface: each.overdue for each in summary.freshness if each.overdue}
        yield Event(
            STALE,
            _labels(summary, **dict.fromkeys(surfaces, "yes")),
            {"sentence": f"No completed scan within {limit}: {parts}.", "overdue": surfaces},
        )


def _drift(summary: Summary) -> Iterator[Event]:
    new, retyped = summary.drift.new, summary.drift.retyped
    parts = [
        f"{what}: {_names((field.path for field in some.shown), some.total)}."
        for some, what in ((new, "New fields"), (retyped, "Fields with a changed type"))
        if some.total
    ]
    if parts:
        yield Event(
            DRIFT,
            _labels(summary, new=_flag(new.total), retyped=_flag(retyped.total)),
            {
                "sentence": " ".join(parts),
                "new": [plain(field.path) for field in new.shown],
                "retyped": [plain(field.path) for field in retyped.shown],
            },
        )


def events(summary: Summary, retry: Retry | None = None) -> tuple[Event, ...]:
    """Return the events of a run that has ended: its result, and accounts, tokens, stale surfaces and drift if any.

    If the run is retried, there are no events of failure or stale surfaces; only the last attempt has them.
    """
    run, found = _run(summary), (*_accounts_gone(summary), *_tokens(summary))
    if retry is None:
        return (run, *found, *_stale(summary), *_drift(summary))
    payload = {**run.payload, "sentence": f"{retry}. {run.payload['sentence']}"}
    return (Event(RETRY, run.labels, payload), *found, *_drift(summary))


def failure_event(message: str) -> Event:
    """Return the event of a run that ended without a report."""
    text = plain(message, _MESSAGE)
    return Event(
        FAILED,
        {
            "prefect.resource.id": "gramhouse.run.without-report",
            "prefect.resource.name": "a run without a report",
            "gramhouse.state": "failed",
        },
        {"sentence": f"A run ended without a report: {text}"},
    )

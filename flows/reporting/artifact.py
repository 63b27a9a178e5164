"""A run's page in Prefect's UI: required action first, then the state of the data."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from connectors.warehouse.runs.failure_groups import Example, FailureGroup
from flows.reporting.headline import LOST, numbers, run_title, verdict
from flows.reporting.summary import Drift, Field, Freshness, RunFacts, Summary, Token, Truncated
from flows.reporting.words import changes, code, count, group_fix, moment, span
from models.runs import OutcomeKind

T = TypeVar("T")

_ROWS = 20
_DETAIL = 200
_WARNING = 500
_BAR = 5
_FIXED = "\N{NO-BREAK SPACE}"
_EIGHTHS = "▏▎▍▌▋▊▉█"

_TOKENS = (
    ("newly", "newly expired", "Their owners must reconnect them; the next sync then fetches their media."),
    ("recovered", "active again", "No action needed: the next sync fetches their media."),
    ("still", "expired before", "Already known: their owners must reconnect them."),
)


def bar(value: float, most: float) -> str:
    """Return a text bar for a number, full for `most`. Any number above zero has a visible bar."""
    eighths = 0 if most <= 0 else round(8 * _BAR * value / most)
    whole, rest = divmod(max(eighths, 1) if value > 0 else 0, 8)
    return _EIGHTHS[-1] * whole + (_EIGHTHS[rest - 1] if rest else "")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> str:
    rules = {"l": "---", "r": "---:"}
    lines = [heads, [rules[side] for side in align], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _listed(some: Truncated[T], heads: Sequence[str], row: Callable[[T], Sequence[str]]) -> str:
    shown = some.shown[:_ROWS]
    rest = some.total - len(shown)
    more = f"\n\nand {rest:,} more" if rest else ""
    return _table(heads, map(row, shown), "l" * len(heads)) + more


def _token(token: Token) -> Sequence[str]:
    media = f"as of {moment(token.media_as_of)}" if token.media_as_of else "never scanned"
    return code(token.ig_username), moment(token.since), media


def _tokens(summary: Summary, *groups: str) -> Iterator[str]:
    for name, what, todo in _TOKENS:
        some: Truncated[Token] = getattr(summary.tokens, name)
        if name in groups and some.total:
            table = _listed(some, ("account", "since", "media"), _token)
            yield f"**{count(some.total, 'account')}: token {what}.** {todo}\n\n{table}"


def _example(example: Example) -> str:
    what = f"{example.surface} of {code(example.ig_username)}" if example.surface else "the account catalogue"
    return what + (f", correlation id {code(example.correlation_id)}" if example.correlation_id else "")


def _failure_group(group: FailureGroup, now: datetime) -> str:
    deferred = group.outcome is OutcomeKind.DEFERRED
    why = f", {code(group.error_code)}" if group.error_code else ""
    detail = f": {code(group.detail, _DETAIL)}" if group.detail else ""
    after = f" Deferred until {moment(group.resume_after)} UTC." if group.resume_after else ""
    todo = group_fix(group, now)
    more = group.scans - len(group.examples)
    such = "; ".join(map(_example, group.examples)) + (f"; and {more:,} more" if more else "")
    head = f"**{count(group.scans, 'scan')} {'deferred' if deferred else group.outcome.replace('_', ' ')}**"
    return f"- {head}{why}{detail}{after}" + (f"\n  - **{todo}**" if todo else "") + f"\n  - {such}"


def _failure_groups(summary: Summary, *kinds: OutcomeKind) -> str:
    groups = [each for each in summary.failure_groups.shown if each.outcome in kinds]
    return "\n".join(_failure_group(each, summary.run.started_at) for each in groups)


def _action_required(summary: Summary) -> Iterator[str]:
    run = summary.run
    yield from _tokens(summary, "newly")
    yield _failure_groups(summary, *LOST)
    if summary.failure_groups.total > len(summary.failure_groups.shown):
        more = summary.failure_groups.total - len(summary.failure_groups.shown)
        yield f"and {more:,} more groups of failures: see `run_outcomes`"
    for warning in summary.warnings:
        fix = f" **Fix:** {code(warning.hint, _WARNING)}" if warning.hint else ""
        yield f"{code(warning.detail, _WARNING)}{fix}"
    if run.quarantined:
        yield f"**{count(run.quarantined, 'record')} rejected**: see `gramhouse quarantine`."
    for each in summary.freshness:
        if each.overdue:
            limit = span(summary.stale_after.total_seconds())
            yield f"**{count(each.overdue, 'account')}: {each.surface} stale**, no completed scan within {limit}."


def _recovering(summary: Summary) -> Iterator[str]:
    yield _failure_groups(summary, OutcomeKind.DEFERRED)
    yield from _tokens(summary, "recovered", "still")


def _run(summary: Summary) -> Iterator[str]:
    run = summary.run
    if summary.resumed:
        yield "Counted for the earlier runs that landed them, not for this run:\n\n" + "\n".join(
            f"- {run_title(each)} UTC ({each.state.value}): {count(each.pages, 'page')}, {count(each.items, 'record')};"
            f" media: {changes(each)}"
            for each in summary.resumed
        )
    if run.accounts_removed:
        yield f"**{count(run.accounts_removed, 'account')} marked removed**: the catalogue no longer lists them."
    if run.kind != "sync" and run.selection:
        yield f"Scanned: {code(run.selection, _DETAIL)}" + (
            f", because {code(run.reason, _DETAIL)}" if run.reason else ""
        )
    kinds = [kind for kind in OutcomeKind if summary.tally[kind]]
    surfaces = dict.fromkeys(each.surface for each in summary.outcomes)
    tally = {(each.surface, each.outcome): each.scans for each in summary.outcomes}
    rows = [
        [surface or "account catalogue", *(f"{tally.get((surface, kind), 0):,}" for kind in kinds)]
        for surface in surfaces
    ]
    if rows:
        yield _table(["scans", *(kind.replace("_", " ") for kind in kinds)], rows, "l" + "r" * len(kinds))


def _fresh(fact: Freshness) -> Sequence[str]:
    cells = [f"{number:,}" for number in (fact.fresh, fact.stale, fact.never, fact.expired)]
    return [fact.surface, *cells, moment(fact.oldest) or "-"]


def _freshness(summary: Summary) -> Iterator[str]:
    if summary.freshness:
        heads = ("surface", "fresh", "stale", "never scanned", "token expired", "oldest, UTC")
        yield _table(heads, map(_fresh, summary.freshness), "lrrrrl")


def _field(field: Field) -> Sequence[str]:
    return field.resource.replace("_", " "), code(field.path), code(field.type or "?")


def _drift(drift: Drift) -> Iterator[str]:
    for some, what in ((drift.new, "new"), (drift.retyped, "with a changed type")):
        if some.total:
            yield f"**{count(some.total, 'field')} {what}**\n\n" + _listed(some, ("of", "field", "type"), _field)


def _past(most: float, longest: float) -> Callable[[RunFacts], Sequence[str]]:
    def row(run: RunFacts) -> Sequence[str]:
        what = code(run.selection) if run.kind == "sync" and run.selection else run.kind
        took = "" if run.seconds is None else f"{bar(run.seconds, longest)} {span(run.seconds)}".replace(" ", _FIXED)
        landed = f"{bar(run.items, most)}{_FIXED}{run.items:,}"
        state = run.state.value if run.state.value == "complete" else f"**{run.state.value}**"
        return f"{run.started_at:%m-%d %H:%M}", what, state, took, landed, f"{run.added:,}", f"{run.changed:,}"

    return row


def _last(summary: Summary) -> Iterator[str]:
    row = _past(
        max((run.items for run in summary.last), default=0), max((run.seconds or 0 for run in summary.last), default=0)
    )
    heads = ("begun, UTC", "run", "state", "time", "records", "new", "changed")
    yield _table(heads, map(row, summary.last), "lllllrr")


def _report(path: Path | None, url: str | None) -> str:
    if path is None:
        return ""
    return f"[**Report with charts**]({url})" if url else f"Report with charts: {code(str(path), _DETAIL)}"


def markdown(summary: Summary, report: Path | None = None, report_url: str | None = None) -> str:
    """Return the page as Markdown. Text from outside is only in code spans.

    `report` is the HTML report that the run renewed, `report_url` its address for users.
    """
    sections = (
        (f"## {verdict(summary)}", [numbers(summary), _report(report, report_url)]),
        ("### Action required", _action_required(summary)),
        ("### Will recover by itself", _recovering(summary)),
        ("### This run", _run(summary)),
        ("### Freshness", _freshness(summary)),
        ("### New or changed fields", _drift(summary.drift)),
        (f"### The last {count(len(summary.last), 'run')}", _last(summary)),
    )
    filled = ((head, [part for part in parts if part]) for head, parts in sections)
    return "\n\n".join("\n\n".join([head, *parts]) for head, parts in filled if parts) + "\n"

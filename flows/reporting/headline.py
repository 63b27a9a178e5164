"""A run in one line: its result and whether it needs action. Text from outside is included only through `plain`."""

from collections.abc import Iterator

from flows.reporting import words
from flows.reporting.summary import RunFacts, Summary
from flows.reporting.words import changes, count, moment, plain, shortfall, span
from models.runs import OutcomeKind, RunState

LOST = (OutcomeKind.FAILED, OutcomeKind.DENIED, OutcomeKind.NOT_FOUND)


def run_title(run: RunFacts) -> str:
    """Return the name of a run, such as `sync of stories 2026-03-01 06:15`."""
    what = words.run_title(run.kind, run.selection and plain(run.selection)) if run.kind == "sync" else run.kind
    return f"{what} {moment(run.started_at)}"


def overdue(summary: Summary) -> str:
    """Return what is stale, such as `posts of 3 accounts and stories of 1 account`; empty if nothing is."""
    parts = [f"{each.surface} of {count(each.overdue, 'account')}" for each in summary.freshness if each.overdue]
    return " and ".join(parts)


def _needs(summary: Summary) -> Iterator[str]:
    if newly := summary.tokens.newly.total:
        yield f"{count(newly, 'token')} newly expired"
    if stale := overdue(summary):
        yield f"{stale} stale"
    if summary.run.quarantined:
        yield f"{count(summary.run.quarantined, 'record')} in quarantine"


def verdict(summary: Summary) -> str:
    """Return a run's result and the reason, then what else needs attention."""
    why, needs = shortfall(summary.tally, summary.warnings), ", ".join(_needs(summary))
    if not why and not needs and summary.run.state is RunState.COMPLETE:
        why = "nothing needs attention"
    if summary.run.state is RunState.FAILED and summary.run.error_code:
        code = plain(summary.run.error_code)
        why = f"{why} ({code})" if why else code
    state = f"{summary.run.state.value.capitalize()}{why and ': '}{why}"
    return f"{state}. Needs attention: {needs}" if needs else state


def numbers(summary: Summary) -> str:
    """Return the numbers of a run as a sentence."""
    run = summary.run
    took = f" took {span(run.seconds)} and" if run.seconds is not None else ""
    removed = f" ({run.accounts_removed:,} removed)" if run.accounts_removed else ""
    scanned = f"{count(run.accounts, 'account')}{removed}, landed {count(run.pages, 'page')}"
    made = f"; {count(run.requests, 'request')}" if run.requests else ""
    return f"The {run_title(run)} UTC{took} saw {scanned}{made}; media: {changes(run)}."


def headline(summary: Summary) -> str:
    """Return a run's result and numbers in one line."""
    return f"{verdict(summary)}. {numbers(summary)}"

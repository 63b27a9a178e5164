"""A run in one line: what it came to, and whether it needs a person. Numbers only, so nothing in it is foreign."""

from collections.abc import Iterator
from datetime import datetime

from flows.foreign import plain
from flows.summary import RunFacts, Summary
from flows.words import count, span
from models.ledger import OutcomeKind

LOST = (OutcomeKind.FAILED, OutcomeKind.DENIED, OutcomeKind.NOT_FOUND)


def moment(at: datetime | None) -> str:
    """Say a time to the minute, UTC; nothing for none."""
    return "" if at is None else f"{at:%Y-%m-%d %H:%M}"


def run_title(run: RunFacts) -> str:
    """Name a run: `sync of stories 2026-03-01 06:15`."""
    what = f" of {plain(run.selection)}" if run.kind == "sync" and run.selection else ""
    return f"{run.kind}{what} {moment(run.started_at)}"


def overdue(summary: Summary) -> str:
    """Say whose media are stale: `posts of 3 accounts and stories of 1 account`; empty when none are."""
    told = [f"{each.surface} of {count(each.overdue, 'account')}" for each in summary.freshness if each.overdue]
    return " and ".join(told)


def _needs(summary: Summary) -> Iterator[str]:
    if newly := summary.tokens.newly.total:
        yield f"{count(newly, 'token')} newly expired"
    if lost := summary.count(*LOST):
        yield f"{count(lost, 'walk')} went wrong"
    for warning in summary.warnings:
        if warning.makes_partial:
            yield f"{warning.count:,} {plain(warning.code).replace('_', ' ')}"
    if stale := overdue(summary):
        yield f"{stale} stale"
    if summary.run.quarantined:
        yield f"{count(summary.run.quarantined, 'record')} set aside"


def verdict(summary: Summary) -> str:
    """Say what a run came to and what needs a person."""
    return f"{summary.run.state.value.capitalize()}: {', '.join(_needs(summary)) or 'nothing needs a person'}"


def media(run: RunFacts) -> str:
    """Say what a run did to the media."""
    told = ", ".join(
        f"{number:,} {word}"
        for number, word in (
            (run.added, "new"),
            (run.changed, "changed"),
            (run.removed, "removed"),
            (run.expired, "expired"),
            (run.returned, "returned"),
        )
        if number
    )
    return told or "nothing changed"


def numbers(summary: Summary) -> str:
    """Say what a run did, in a sentence."""
    run = summary.run
    took = f" took {span(run.seconds)} and" if run.seconds is not None else ""
    walked = f"{count(run.accounts, 'account')}, landed {count(run.pages, 'page')}"
    return f"The {run_title(run)} UTC{took} saw {walked}; media: {media(run)}."


def headline(summary: Summary) -> str:
    """Say a run in a line."""
    return f"{verdict(summary)}. {numbers(summary)}"

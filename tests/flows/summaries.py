"""Summaries of runs for tests, and hostile texts that must not be interpreted as markup."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from connectors.warehouse.runs.failure_groups import Example, FailureGroup
from flows.reporting.summary import (
    Drift,
    Field,
    Freshness,
    OutcomeCount,
    RunFacts,
    Summary,
    Token,
    Tokens,
    Truncated,
)
from models.runs import OutcomeKind, RunState, RunWarning

START = datetime(2026, 3, 1, 2, 15, tzinfo=UTC)

HOSTILE = (
    "a|b",
    "`whoami`",
    "``",
    "[click](https://evil.example)",
    "<script>alert(1)</script>",
    "<!channel>",
    "line\n## break\r\n| a | b |",
    "\u202etxt.exe",
    "\x1b[31mred",
    "{{ secret }}",
    "@everyone *loud* ~gone~",
    "https://evil.example/x",
    "\\",
    "back\\`slash\\",
    "![x](https://evil.example/i.png)",
    "```mermaid",
)

RUN = RunFacts(
    run_id="run-1",
    kind="sync",
    selection=None,
    reason=None,
    state=RunState.COMPLETE,
    started_at=START,
    seconds=2520.0,
    accounts=100,
    accounts_removed=0,
    accounts_missing=0,
    pages=300,
    items=12_000,
    added=40,
    changed=7,
    removed=0,
    expired=0,
    returned=0,
    quarantined=0,
    requests=0,
    error_code=None,
    detail=None,
)


def run(**changes: Any) -> RunFacts:  # noqa: ANN401 - fields of RunFacts
    return replace(RUN, **changes)


def summary(**changes: Any) -> Summary:  # noqa: ANN401 - fields of Summary
    quiet = Summary(
        run=RUN,
        resumed_runs=(),
        resumed=(),
        stale_after=timedelta(hours=36),
        outcomes=(OutcomeCount("posts", OutcomeKind.COMPLETE, 100),),
        tokens=Tokens(),
        failure_groups=Truncated(),
        freshness=(),
        drift=Drift(),
        warnings=(),
        last=(RUN,),
    )
    return replace(quiet, **changes)


def tokens(*names: str, total: int | None = None) -> Truncated[Token]:
    found = tuple(Token(f"id of {name}", name, START, None) for name in names)
    return Truncated(len(found) if total is None else total, found)


def failure(outcome: OutcomeKind, error_code: str = "api_forbidden", **changes: Any) -> FailureGroup:  # noqa: ANN401
    example = Example("anna", "posts", "TRACE")
    return replace(FailureGroup(outcome, error_code, 1, 1, None, "No.", (example,)), **changes)


def fresh(surface: str = "posts", **changes: Any) -> Freshness:  # noqa: ANN401
    return replace(Freshness(surface, 100, 100, 0, 0, 0, 3, START), **changes)


def hostile() -> Summary:
    """A summary in which every text from outside is hostile."""
    return summary(
        run=run(kind="backfill", selection=HOSTILE[2], reason=HOSTILE[3], state=RunState.PARTIAL),
        outcomes=(OutcomeCount("posts", OutcomeKind.FAILED, 40),),
        tokens=Tokens(tokens(*HOSTILE), tokens(*HOSTILE), tokens(*HOSTILE)),
        failure_groups=Truncated(
            2 * len(HOSTILE),
            tuple(
                failure(kind, text, detail=text, examples=(Example(text, "posts", text),))
                for text in HOSTILE
                for kind in (OutcomeKind.FAILED, OutcomeKind.DEFERRED)
            ),
        ),
        drift=Drift(
            Truncated(len(HOSTILE), tuple(Field("media", text, text) for text in HOSTILE)),
            Truncated(len(HOSTILE), tuple(Field("media", text, text) for text in HOSTILE)),
        ),
        warnings=(RunWarning("accounts_missing", 30, " ".join(HOSTILE), " ".join(HOSTILE), makes_partial=True),),
        last=tuple(run(selection=text) for text in HOSTILE),
    )

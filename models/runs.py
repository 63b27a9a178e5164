"""The run ledger: runs, their one outcome per partition, and what a run amounts to."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from models.partition import Partition

STALE_AFTER = timedelta(hours=36)
"""How old a partition may become before it is stale: a nightly run may fail once."""


class OutcomeKind(StrEnum):
    """The result of a partition in a run: exactly one per partition and run."""

    COMPLETE = "complete"
    RECENT = "recent"
    SKIPPED = "skipped"
    DEFERRED = "deferred"
    DENIED = "denied"
    NOT_FOUND = "not_found"
    FAILED = "failed"


class RunState(StrEnum):
    """The state of a run. The next run marks a running one whose process is gone as interrupted."""

    RUNNING = "running"
    COMPLETE = "complete"
    PARTIAL = "partial"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one partition in one run.

    `pages` and `items` count what this run landed of it. Of a partition that went wrong it keeps the error's
    code, HTTP status and X-Correlation-ID (API 7), and when it may be asked for again.
    """

    partition: Partition
    run_id: str
    kind: OutcomeKind
    started_at: datetime
    ended_at: datetime
    pages: int = 0
    items: int = 0
    error_code: str | None = None
    http_status: int | None = None
    correlation_id: str | None = None
    resume_after: datetime | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class RunWarning:
    """What a person should know of a run and no partition's outcome says; at most one of each `code` per run.

    `code` reads as words after `count`: `accounts_missing` and 30 are "30 accounts missing". `detail` says what
    happened and `hint` what to do, one line each. A run with a warning that `makes_partial` is never complete.
    """

    code: str
    count: int
    detail: str
    hint: str | None = None
    makes_partial: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """One invocation of sync or backfill. `resumes` is the run it takes over, if any.

    `published`: analysts were given what it left.
    """

    run_id: str
    kind: str
    started_at: datetime
    state: RunState = RunState.RUNNING
    resumes: str | None = None
    published: bool = True

    @property
    def unfinished(self) -> bool:
        """Say whether it was cut short: in its work, or before its snapshot was in place."""
        return self.state is RunState.INTERRUPTED or not self.published


@dataclass(frozen=True, slots=True)
class Tally:
    """Outcomes counted by kind."""

    kinds: dict[OutcomeKind, int] = field(default_factory=dict)

    def __getitem__(self, kind: OutcomeKind) -> int:
        return self.kinds.get(kind, 0)

    @property
    def total(self) -> int:
        """Return how many outcomes there are."""
        return sum(self.kinds.values())


DONE = (OutcomeKind.COMPLETE, OutcomeKind.RECENT)
"""The outcomes of a scan that did its work: it reached the last page, or known territory."""

# What a person can act on first.
INCOMPLETE = (OutcomeKind.FAILED, OutcomeKind.DENIED, OutcomeKind.NOT_FOUND, OutcomeKind.DEFERRED)
"""The outcomes of a scan that did not do its work."""


def mostly_incomplete(counted: Tally) -> bool:
    """Say whether a run did less than half of the scans that it should have done; skipped ones do not count."""
    incomplete = sum(counted[kind] for kind in INCOMPLETE)
    return 2 * incomplete > counted.total - counted[OutcomeKind.SKIPPED]


def run_state(counted: Tally, *, stopped: bool, warnings: Iterable[RunWarning] = ()) -> RunState:
    """Say what a run amounts to, from its outcomes, its warnings and whether an error stopped it.

    A run that was stopped, or in which nothing went well and nothing merely waits, failed. One in which
    something is left to do while the rest landed is partial, and so is one with a warning that says so. Skipped
    accounts leave nothing to do: only their owner can renew the token.
    """
    if stopped:
        return RunState.FAILED
    lost = counted[OutcomeKind.DENIED] + counted[OutcomeKind.NOT_FOUND] + counted[OutcomeKind.FAILED]
    if not lost and not counted[OutcomeKind.DEFERRED]:
        return RunState.PARTIAL if any(warning.makes_partial for warning in warnings) else RunState.COMPLETE
    if not any(counted[kind] for kind in (*DONE, OutcomeKind.DEFERRED)):
        return RunState.FAILED
    return RunState.PARTIAL


def is_recent(began: datetime, *, now: datetime, within: timedelta) -> bool:
    """Say whether something began no longer ago than `within`; what began in the future did not."""
    return timedelta(0) <= now - began <= within


def resumed_runs(runs: Iterable[Run], *, now: datetime, within: timedelta) -> tuple[str, ...]:
    """Return the ids of the unfinished runs that a new run resumes, newest first; often none.

    `runs` come newest first. A run is resumed if it is the last one, was cut short, and the chain of
    unfinished runs it belongs to began no longer ago than `within`: what was complete before that is too
    old to count for a new run. The age of a run that began in the future is unknown, so it is not resumed.
    """
    by_id = {run.run_id: run for run in runs}
    newest = next(iter(by_id.values()), None)
    chain: list[Run] = []
    while newest is not None and newest.unfinished and newest not in chain:
        chain.append(newest)
        newest = by_id.get(newest.resumes) if newest.resumes else None
    if not all(is_recent(run.started_at, now=now, within=within) for run in chain):
        return ()
    return tuple(run.run_id for run in chain)

"""Runs: their outcomes, one per partition, the rules for their state, and the findings about them."""

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from models.feeds import Partition

RUN_KINDS = ("sync", "backfill")
"""The commands that are runs. Others have no id in the state's runs."""

LONG_COOLDOWN = timedelta(days=1)
"""A cooldown with more time left is shown to a person, because the service may have sent it by mistake."""

REQUEST_BUDGET = "request_budget"
"""The error code of what a run deferred because it may make no more requests."""

ITEMS_REJECTED = "items_rejected"
ACCOUNTS_REJECTED = "accounts_rejected"
LANDED = (ITEMS_REJECTED, ACCOUNTS_REJECTED)
"""The error codes of scans that failed although their pages landed: more than half of the records were rejected."""


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


TOKEN_EXPIRED = "token_expired"  # noqa: S105 - a code, not a password


class Severity(StrEnum):
    """Whether a finding requires an action of the operator: yes, perhaps, or not."""

    ACTION = "action"
    WARNING = "warning"
    INFORMATION = "information"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: `text` is the cause, `fix` what to do about it, both without a full stop; `accounts` are usernames.

    `code` is a word for programs, and `count` the number of what it is about. An account without a name, and the
    account catalogue, are not among `accounts`. Texts from the API are included as they are: the output that shows a
    finding makes them harmless.
    """

    code: str
    severity: Severity
    text: str
    fix: str = ""
    accounts: tuple[str, ...] = ()
    count: int = 1

    @classmethod
    def of(cls, code: str, severity: Severity, message: str) -> "Finding":
        """Return the finding of a message: a cause, and after `Fix:` what to do about it."""
        text, _, fix = message.partition(" Fix: ")
        return cls(code, severity, text.rstrip("."), fix.rstrip("."))

    def sentence(self, named: int = 5) -> str:
        """Return the cause, the names of up to `named` accounts, and the fix."""
        names = f" ({several(self.accounts, named)})" if self.accounts else ""
        return f"{self.text}{names}.{f' Fix: {self.fix}.' if self.fix else ''}"


def several(names: Sequence[str], named: int = 5) -> str:
    """Return the first names, and the number of the rest: `anna, ben and 28 more`."""
    more = f" and {len(names) - named:,} more" if len(names) > named else ""
    return ", ".join(names[:named]) + more


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one partition in one run.

    `pages` and `items` count what this run landed. The outcome of an incomplete scan has the error's code, HTTP status
    and X-Correlation-ID (API 7). If a cooldown deferred the scan, no request may be sent before `resume_after`.
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


DONE = (OutcomeKind.COMPLETE, OutcomeKind.RECENT)
"""The outcomes of a closed scan: it reached the last page, or known posts."""

# Ordered by what a user can act on first.
INCOMPLETE = (OutcomeKind.FAILED, OutcomeKind.DENIED, OutcomeKind.NOT_FOUND, OutcomeKind.DEFERRED)
"""The outcomes of a scan that was not closed, except for skipped ones."""


def mostly_incomplete(counted: Counter[OutcomeKind]) -> bool:
    """Return whether more than half of a run's scans are incomplete; skipped ones do not count."""
    incomplete = sum(counted[kind] for kind in INCOMPLETE)
    return 2 * incomplete > counted.total() - counted[OutcomeKind.SKIPPED]


def run_state(
    counted: Counter[OutcomeKind], *, stopped: bool, landed: bool = False, warnings: Iterable[Finding] = ()
) -> RunState:
    """Return the state of a run that ended, from its outcomes, its warnings and whether an error stopped it.

    A run failed if it was stopped, or if it has incomplete scans and none that is closed or deferred, or that `landed`
    although it failed. It is partial if it has incomplete scans, or a warning that needs a person. Skipped accounts do
    not count as incomplete: only their owner can renew the token.
    """
    is_incomplete = any(counted[kind] for kind in INCOMPLETE)
    has_result = landed or any(counted[kind] for kind in (*DONE, OutcomeKind.DEFERRED))
    if stopped or (is_incomplete and not has_result):
        return RunState.FAILED
    needs_action = any(warning.severity is Severity.ACTION for warning in warnings)
    return RunState.PARTIAL if is_incomplete or needs_action else RunState.COMPLETE


def began_within(began: datetime, *, now: datetime, within: timedelta) -> bool:
    """Return whether something began no longer ago than `within`; False if it began in the future."""
    return timedelta(0) <= now - began <= within


JOINER = "\u200d"
"""Joins emoji into one. It is a format character, but steers no terminal."""


def one_line(text: str, limit: int = 200) -> str:
    """Return external text as one printable line of at most `limit` characters."""
    head = text[: 4 * limit]
    line = " ".join("".join(char if char.isprintable() or char == JOINER else " " for char in head).split())
    return line if len(line) <= limit and len(head) == len(text) else line[: limit - 1] + "…"


def nearest(typed: str, known: Iterable[str], shown: Callable[[str], str] = str) -> str:
    """Return the question whether the most similar known name is meant, as `shown`; empty if none is similar."""
    near = difflib.get_close_matches(typed, known, n=1)
    return f"Did you mean {one_line(shown(near[0]))}? " if near else ""

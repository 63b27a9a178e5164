"""The tables of the state file, as SQLAlchemy Core metadata: what the pipeline knows about itself.

The state is one SQLite file beside the warehouse.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Boolean, Column, Dialect, Double, Integer, LargeBinary, MetaData, Table, Text, UniqueConstraint
from sqlalchemy.types import TypeDecorator, TypeEngine

STATE = MetaData()

# A change of these tables needs the next number, and statements that make it in an older file when that is opened.
SCHEMA_NUMBER = 1


def text_of_time(moment: datetime) -> str:
    """Return a time as the state stores it: ISO 8601 in UTC with microseconds, so that texts sort like times."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


class Instant(TypeDecorator[datetime]):
    """A time with its zone, stored as `text_of_time` writes it."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - its signature
        """Return the text that is stored."""
        return None if value is None else text_of_time(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return the time of a stored text."""
        return None if value is None else datetime.fromisoformat(value)


def _table(name: str, keys: int, columns: Mapping[str, type[TypeEngine[Any]]], **options: Any) -> Table:  # noqa: ANN401
    """Add a table, whose first columns are its key. A column whose name has a question mark may be NULL."""
    made = [
        Column(each.rstrip("?"), kind, primary_key=number < keys, nullable=each.endswith("?"))
        for number, (each, kind) in enumerate(columns.items())
    ]
    return Table(name, STATE, *made, **options)


# The file itself: one row.
identity = _table(
    "identity",
    0,
    {
        "schema_number": Integer,  # The number of this file's schema.
        "token": Text,  # Random, new whenever the files are opened for writing; empty before the first time.
        "last_seq": Integer,  # The last landing number; it never falls.
        "salt": Text,  # Random, never changes: the salt of the hashes of hidden values in snapshots.
        "base_url?": Text,  # Address of the API that the data comes from, without /api/v1; NULL before any page.
    },
)

# Runs, one row each, and the last command that was not a run.
runs = _table(
    "runs",
    1,
    {
        "number": Integer,  # Order in which commands began.
        "run_id?": Text,  # The run's id; NULL for a failed start, and for a command that scans nothing.
        "seq?": Integer,  # Order in which runs began, from 1; NULL without a run.
        "kind": Text,  # sync or backfill; or another command, such as publish.
        "pid": Integer,  # The process.
        "selection?": Text,  # What it was asked to scan; NULL for everything.
        "reason?": Text,  # The reason that was given for it.
        "state": Text,  # running, complete, partial, failed or interrupted.
        "started_at": Instant,  # When it began.
        "ended_at?": Instant,  # When it ended.
        "resumes?": Text,  # The interrupted run that it resumes.
        "base_url?": Text,  # Address of the API, without /api/v1.
        "accept_removals?": Boolean,  # Whether it was started with --accept-removals.
        "accounts?": Integer,  # Accounts listed by the catalogue; for a backfill, accounts selected.
        "accounts_missing?": Integer,  # Accounts missing from the catalogue whose removal awaits confirmation.
        "partitions?": Integer,  # Number of partitions: the catalogue, and each account once for each surface.
        "requests?": Integer,  # Requests it sent, retries included; NULL until it ends.
        "pages?": Integer,  # Pages it landed; NULL until it ends.
        "items?": Integer,  # Records on those pages; NULL until it ends.
        "error_code?": Text,  # The error that stopped it, or else the main reason why it is not complete.
        "detail?": Text,  # Explanation, one line.
        "version?": Text,  # The version of gramhouse that ran it.
        "published_at?": Instant,  # When its snapshot was published; NULL before.
    },
)
runs.append_constraint(UniqueConstraint(runs.c.run_id))

# Warnings of runs, one row each.
run_warnings = _table(
    "run_warnings",
    2,
    {
        "run_id": Text,  # The run.
        "code": Text,  # Kind of warning; a run has at most one of each kind.
        "count": Integer,  # How many records, accounts or values it concerns.
        "detail": Text,  # What happened, one line.
        "hint?": Text,  # What to do about it, one line; NULL if there is nothing to do.
        "makes_partial": Boolean,  # Whether the run is partial because of it.
    },
)

# Progress of the last scan of each partition and run kind, one row each.
checkpoints = _table(
    "checkpoints",
    4,
    {
        "resource": Text,  # What is scanned: accounts (the catalogue) or media.
        "account_id": Text,  # The scanned account; empty for the catalogue.
        "surface": Text,  # The feed, such as posts or stories; empty for the catalogue.
        "run_kind": Text,  # sync or backfill: each has separate checkpoints.
        "scan_id": Text,  # The scan.
        "run_id": Text,  # The last run that took part in it.
        "began_seq": Integer,  # The landing of its first page.
        "started_at": Instant,  # When the scan began.
        "updated_at": Instant,  # When its last page was received.
        "cursor?": Text,  # Cursor of the page to request next, unchanged.
        "pages": Integer,  # Pages of the scan landed so far.
        "items": Integer,  # Records of the scan landed so far.
        "rejected": Integer,  # Records of the scan landed so far that went to quarantine.
        "had_expired_token": Boolean,  # Whether the account's token had expired when one of its pages came.
        "state": Text,  # scanning, complete, recent or abandoned.
        "repeated_pages": Integer,  # Pages with only items seen before, since the last page with a new item.
        "empty_pages": Integer,  # Pages without items since the last page with a new item.
        "known_seq?": Integer,  # It may stop at posts known when this landing closed a scan; NULL: a full scan.
        "known_run": Integer,  # Consecutive known posts, up to the last one, older than the lookback window.
        "read_to?": Instant,  # Publication time of the last post in order after the pins.
        "order_broken_by?": Text,  # Id of the first post out of order; empty if it has no id; NULL without one.
        "full_share?": Double,  # The part of the refresh interval after which the next full scan is due.
    },
    sqlite_with_rowid=False,
)

# Cooldowns, kept across restarts.
cooldowns = _table(
    "cooldowns",
    1,
    {
        "scope": Text,  # The rate-limit scope that was limited.
        "resume_after": Instant,  # No request may be sent before this.
        "asked_at?": Instant,  # When the API requested the wait.
    },
)

# What has landed and is not merged yet.
inbox = _table(
    "inbox",
    1,
    {
        "seq": Integer,  # Its landing number: the order of landing.
        "entry": Text,  # JSON: the page without its body, the checkpoint after it, and outcomes.
        "body": LargeBinary,  # The page's body as the API sent it; empty without a page.
    },
)

# Accounts that `gramhouse forget` erased, and that syncs do not import, one row each.
forgotten = _table(
    "forgotten",
    1,
    {
        "mark": Text,  # Hash of the account's id; the id itself is stored nowhere.
        "salt": Text,  # The salt of the hash, the same in all rows.
        "forgotten_at": Instant,  # When the account was erased.
    },
)

# Maintenance that is under way, or was interrupted and must begin again.
operations = _table(
    "operations",
    1,
    {
        "kind": Text,  # What is under way: forget.
        "seq": Integer,  # Its landing number.
        "began_at": Instant,  # When it began.
        "detail": Text,  # JSON: what it needs to begin again.
    },
)

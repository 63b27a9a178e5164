"""The tables of the state file, as SQLAlchemy Core metadata: what the pipeline knows about itself.

The state is one SQLite file beside the warehouse.
"""

from datetime import UTC, datetime

from sqlalchemy import Boolean, Column, Dialect, Double, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy.types import TypeDecorator

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


# The file itself: one row.
identity = Table(
    "identity",
    STATE,
    Column("schema_number", Integer, nullable=False),  # The number of this file's schema.
    Column("token", Text, nullable=False),  # Random, new whenever the files are opened for writing; at first empty.
    Column("last_seq", Integer, nullable=False),  # The last landing number; it never falls.
    Column("salt", Text, nullable=False),  # Random, never changes: for hashes of hidden values in snapshots.
    Column("base_url", Text),  # Address of the API that the data comes from, without /api/v1; NULL before any page.
)

# Runs, one row each, and the last command that was not a run.
runs = Table(
    "runs",
    STATE,
    Column("number", Integer, primary_key=True),  # Order in which commands began.
    Column("run_id", Text, unique=True),  # The run's id; NULL for a failed start, and for a command that scans nothing.
    Column("seq", Integer),  # Order in which runs began, from 1; NULL without a run.
    Column("kind", Text, nullable=False),  # sync or backfill; or another command, such as publish.
    Column("pid", Integer, nullable=False),  # The process.
    Column("selection", Text),  # What it was asked to scan; NULL for everything.
    Column("reason", Text),  # The reason that was given for it.
    Column("state", Text, nullable=False),  # running, complete, partial, failed or interrupted.
    Column("started_at", Instant, nullable=False),  # When it began.
    Column("ended_at", Instant),  # When it ended.
    Column("resumes", Text),  # The interrupted run that it resumes.
    Column("base_url", Text),  # Address of the API, without /api/v1.
    Column("accept_removals", Boolean),  # Whether it was started with --accept-removals.
    Column("accounts", Integer),  # Accounts listed by the catalogue; for a backfill, accounts selected.
    Column("accounts_missing", Integer),  # Accounts missing from the catalogue whose removal awaits confirmation.
    Column("partitions", Integer),  # Number of partitions: the catalogue, and each account once for each surface.
    Column("requests", Integer),  # Requests it sent, retries included; NULL until it ends.
    Column("pages", Integer),  # Pages it landed; NULL until it ends.
    Column("items", Integer),  # Records on those pages; NULL until it ends.
    Column("error_code", Text),  # The error that stopped it, or else the main reason why it is not complete.
    Column("detail", Text),  # Explanation, one line.
    Column("version", Text),  # The version of gramhouse that ran it.
    Column("published_at", Instant),  # When its snapshot was published; NULL before.
)

# Warnings of runs, one row each.
run_warnings = Table(
    "run_warnings",
    STATE,
    Column("run_id", Text, primary_key=True),  # The run.
    Column("code", Text, primary_key=True),  # Kind of warning; a run has at most one of each kind.
    Column("count", Integer, nullable=False),  # How many records, accounts or values it concerns.
    Column("detail", Text, nullable=False),  # What happened, one line.
    Column("hint", Text),  # What to do about it, one line; NULL if there is nothing to do.
    Column("makes_partial", Boolean, nullable=False),  # Whether the run is partial because of it.
)

# Progress of the last scan of each partition and run kind, one row each.
checkpoints = Table(
    "checkpoints",
    STATE,
    Column("resource", Text, primary_key=True),  # What is scanned: accounts (the catalogue) or media.
    Column("account_id", Text, primary_key=True),  # The scanned account; empty for the catalogue.
    Column("surface", Text, primary_key=True),  # The feed, such as posts or stories; empty for the catalogue.
    Column("run_kind", Text, primary_key=True),  # sync or backfill: each has separate checkpoints.
    Column("scan_id", Text, nullable=False),  # The scan.
    Column("run_id", Text, nullable=False),  # The last run that took part in it.
    Column("began_seq", Integer, nullable=False),  # The landing of its first page.
    Column("started_at", Instant, nullable=False),  # When the scan began.
    Column("updated_at", Instant, nullable=False),  # When its last page was received.
    Column("cursor", Text),  # Cursor of the page to request next, unchanged.
    Column("pages", Integer, nullable=False),  # Pages of the scan landed so far.
    Column("items", Integer, nullable=False),  # Records of the scan landed so far.
    Column("rejected", Integer, nullable=False),  # Records of the scan landed so far that went to quarantine.
    Column("had_expired_token", Boolean, nullable=False),  # Whether the token had expired when one of its pages came.
    Column("state", Text, nullable=False),  # scanning, complete, recent or abandoned.
    Column(
        "repeated_pages", Integer, nullable=False
    ),  # Pages with only known items, since the last one with a new item.
    Column("empty_pages", Integer, nullable=False),  # Pages without items since the last page with a new item.
    Column("known_seq", Integer),  # It may stop at posts known when this landing closed a scan; NULL: a full scan.
    Column(
        "known_run", Integer, nullable=False
    ),  # Known posts in a row, up to the last, older than the lookback window.
    Column("read_to", Instant),  # Publication time of the last post in order after the pins.
    Column("order_broken_by", Text),  # Id of the first post out of order; empty if it has no id; NULL without one.
    Column("full_share", Double),  # The part of the refresh interval after which the next full scan is due.
    sqlite_with_rowid=False,
)

# Cooldowns, kept across restarts.
cooldowns = Table(
    "cooldowns",
    STATE,
    Column("scope", Text, primary_key=True),  # The rate-limit scope that was limited.
    Column("resume_after", Instant, nullable=False),  # No request may be sent before this.
    Column("asked_at", Instant),  # When the API requested the wait.
)

# What has landed and is not merged yet.
inbox = Table(
    "inbox",
    STATE,
    Column("seq", Integer, primary_key=True),  # Its landing number: the order of landing.
    Column("entry", Text, nullable=False),  # JSON: the page without its body, the checkpoint after it, and outcomes.
    Column("body", LargeBinary, nullable=False),  # The page's body as the API sent it; empty without a page.
)

# Accounts that `gramhouse forget` erased, and that syncs do not import, one row each.
forgotten = Table(
    "forgotten",
    STATE,
    Column("mark", Text, primary_key=True),  # Hash of the account's id; the id itself is stored nowhere.
    Column("salt", Text, nullable=False),  # The salt of the hash, the same in all rows.
    Column("forgotten_at", Instant, nullable=False),  # When the account was erased.
)

# Maintenance that is under way, or was interrupted and must begin again.
operations = Table(
    "operations",
    STATE,
    Column("kind", Text, primary_key=True),  # What is under way: forget.
    Column("seq", Integer, nullable=False),  # Its landing number.
    Column("began_at", Instant, nullable=False),  # When it began.
    Column("detail", Text, nullable=False),  # JSON: what it needs to begin again.
)

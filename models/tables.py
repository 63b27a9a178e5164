"""The tables of the state file, as SQLAlchemy Core metadata: what the pipeline knows about itself.

The state is one SQLite file beside the warehouse.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Boolean, Column, Dialect, Double, Integer, LargeBinary, MetaData, Table, Text
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


def _key(name: str, type_: type[TypeEngine[Any]], comment: str) -> Column[Any]:
    return Column(name, type_, primary_key=True, nullable=False, comment=comment)


def _required(name: str, type_: type[TypeEngine[Any]], comment: str) -> Column[Any]:
    return Column(name, type_, nullable=False, comment=comment)


def _optional(name: str, type_: type[TypeEngine[Any]], comment: str) -> Column[Any]:
    return Column(name, type_, comment=comment)


identity = Table(
    "identity",
    STATE,
    _required("schema_number", Integer, "The number of this file's schema."),
    _required("token", Text, "Random, new whenever the files are opened for writing; empty before the first time."),
    _required("last_seq", Integer, "The last landing number; it never falls."),
    _required("salt", Text, "Random, never changes: the salt of the hashes of hidden values in snapshots."),
    _optional("base_url", Text, "Address of the API that the data comes from, without /api/v1; NULL before any page."),
    comment="The file itself: one row.",
)

runs = Table(
    "runs",
    STATE,
    _key("number", Integer, "Order in which commands began."),
    Column(
        "run_id",
        Text,
        unique=True,
        comment="The run's id; NULL for a failed start, and for a command that scans nothing.",
    ),
    _optional("seq", Integer, "Order in which runs began, from 1; NULL without a run."),
    _required("kind", Text, "sync or backfill; or another command, such as publish."),
    _required("pid", Integer, "The process."),
    _optional("selection", Text, "What it was asked to scan; NULL for everything."),
    _optional("reason", Text, "The reason that was given for it."),
    _required("state", Text, "running, complete, partial, failed or interrupted."),
    _required("started_at", Instant, "When it began."),
    _optional("ended_at", Instant, "When it ended."),
    _optional("resumes", Text, "The interrupted run that it resumes."),
    _optional("base_url", Text, "Address of the API, without /api/v1."),
    _optional("accept_removals", Boolean, "Whether it was started with --accept-removals."),
    _optional("accounts", Integer, "Accounts listed by the catalogue; for a backfill, accounts selected."),
    _optional("accounts_missing", Integer, "Accounts missing from the catalogue whose removal awaits confirmation."),
    _optional("partitions", Integer, "Number of partitions: the catalogue, and each account once for each surface."),
    _optional("requests", Integer, "Requests it sent, retries included; NULL until it ends."),
    _optional("pages", Integer, "Pages it landed; NULL until it ends."),
    _optional("items", Integer, "Records on those pages; NULL until it ends."),
    _optional("error_code", Text, "The error that stopped it, or else the main reason why it is not complete."),
    _optional("detail", Text, "Explanation, one line."),
    _optional("version", Text, "The version of gramhouse that ran it."),
    _optional("published_at", Instant, "When its snapshot was published; NULL before."),
    comment="Runs, one row each, and the last command that was not a run.",
)

run_warnings = Table(
    "run_warnings",
    STATE,
    _key("run_id", Text, "The run."),
    _key("code", Text, "Kind of warning; a run has at most one of each kind."),
    _required("count", Integer, "How many records, accounts or values it concerns."),
    _required("detail", Text, "What happened, one line."),
    _optional("hint", Text, "What to do about it, one line; NULL if there is nothing to do."),
    _required("makes_partial", Boolean, "Whether the run is partial because of it."),
    comment="Warnings of runs, one row each.",
)

checkpoints = Table(
    "checkpoints",
    STATE,
    _key("resource", Text, "What is scanned: accounts (the catalogue) or media."),
    _key("account_id", Text, "The scanned account; empty for the catalogue."),
    _key("surface", Text, "The feed, such as posts or stories; empty for the catalogue."),
    _key("run_kind", Text, "sync or backfill: each has separate checkpoints."),
    _required("scan_id", Text, "The scan."),
    _required("run_id", Text, "The last run that took part in it."),
    _required("began_seq", Integer, "The landing of its first page."),
    _required("started_at", Instant, "When the scan began."),
    _required("updated_at", Instant, "When its last page was received."),
    _optional("cursor", Text, "Cursor of the page to request next, unchanged."),
    _required("pages", Integer, "Pages of the scan landed so far."),
    _required("items", Integer, "Records of the scan landed so far."),
    _required("rejected", Integer, "Records of the scan landed so far that went to quarantine."),
    _required("had_expired_token", Boolean, "Whether the account's token had expired when one of its pages came."),
    _required("state", Text, "scanning, complete, recent or abandoned."),
    _required("repeated_pages", Integer, "Pages with only items seen before, since the last page with a new item."),
    _required("empty_pages", Integer, "Pages without items since the last page with a new item."),
    _optional("known_seq", Integer, "It may stop at posts known when this landing closed a scan; NULL: a full scan."),
    _required("known_run", Integer, "Consecutive known posts, up to the last one, older than the lookback window."),
    _optional("read_to", Instant, "Publication time of the last post in order after the pins."),
    _optional("order_broken_by", Text, "Id of the first post out of order; empty if it has no id; NULL without one."),
    _optional("full_share", Double, "The part of the refresh interval after which the next full scan is due."),
    sqlite_with_rowid=False,
    comment="Progress of the last scan of each partition and run kind, one row each.",
)

cooldowns = Table(
    "cooldowns",
    STATE,
    _key("scope", Text, "The rate-limit scope that was limited."),
    _required("resume_after", Instant, "No request may be sent before this."),
    _optional("asked_at", Instant, "When the API requested the wait."),
    comment="Cooldowns, kept across restarts.",
)

inbox = Table(
    "inbox",
    STATE,
    _key("seq", Integer, "Its landing number: the order of landing."),
    _required("entry", Text, "JSON: the page without its body, the checkpoint after it, and outcomes."),
    _required("body", LargeBinary, "The page's body as the API sent it; empty without a page."),
    comment="What has landed and is not merged yet.",
)

forgotten = Table(
    "forgotten",
    STATE,
    _key("mark", Text, "Hash of the account's id; the id itself is stored nowhere."),
    _required("salt", Text, "The salt of the hash, the same in all rows."),
    _required("forgotten_at", Instant, "When the account was erased."),
    comment="Accounts that `gramhouse forget` erased, and that syncs do not import, one row each.",
)

operations = Table(
    "operations",
    STATE,
    _key("kind", Text, "What is under way: forget."),
    _required("seq", Integer, "Its landing number."),
    _required("began_at", Instant, "When it began."),
    _required("detail", Text, "JSON: what it needs to begin again."),
    comment="Maintenance that is under way, or was interrupted and must begin again.",
)

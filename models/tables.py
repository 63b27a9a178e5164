"""Every table and column gramhouse keeps, declared once, each with a comment.

Two houses are declared here. `WAREHOUSE` is the writer's file: schema `core` holds what was folded, schema
`ops` what a run needs to go on. `SNAPSHOT` is the analysts' file, all in schema `main`. No table has a key or
an index: DuckDB's cost far more on these loads than they give, so uniqueness is kept by the fold.
"""

from sqlalchemy import BIGINT, INTEGER, TIMESTAMP, VARCHAR, Column, MetaData, Table
from sqlalchemy.types import JSON, TypeEngine

WAREHOUSE = MetaData()
SNAPSHOT = MetaData()

INSTANT = TIMESTAMP(timezone=True)


def _text(name: str, comment: str, *, nullable: bool = True) -> Column[str]:
    return Column(name, VARCHAR, comment=comment, nullable=nullable)


def _instant(name: str, comment: str, *, nullable: bool = True) -> Column[object]:
    return Column(name, INSTANT, comment=comment, nullable=nullable)


def _whole(name: str, comment: str, kind: TypeEngine[int] | type[TypeEngine[int]] = BIGINT) -> Column[int]:
    return Column(name, kind, comment=comment)


def _account_id() -> Column[str]:
    return _text("account_id", "The account's id, a UUID as the API writes it.", nullable=False)


def _surface() -> Column[str]:
    return _text("surface", "Where the item was listed: posts or stories.", nullable=False)


def _media_id() -> Column[str]:
    return _text("media_id", "The item's own id, always text.", nullable=False)


def _partition() -> tuple[Column[str], ...]:
    return (
        _text("resource", "What was walked: accounts (the catalogue) or media.", nullable=False),
        _text("account_id", "The account walked; empty for the catalogue.", nullable=False),
        _text("surface", "posts or stories; empty for the catalogue.", nullable=False),
    )


def _account() -> tuple[Column[str], ...]:
    return (
        _account_id(),
        _text("ig_username", "The account's name on the social network.", nullable=False),
        _text("public_id", "The account's short public id.", nullable=False),
        _text("status", "active, or token_expired: its access token must be renewed.", nullable=False),
    )


def _account_life() -> tuple[Column[object], ...]:
    return (
        _instant("first_seen_at", "When a sync first saw the account.", nullable=False),
        _instant("last_seen_at", "When a sync last saw the account.", nullable=False),
        _instant("removed_at", "When a complete walk of the catalogue no longer listed it; NULL while it does."),
    )


def _status_period() -> tuple[Column[object], ...]:
    return (
        _instant("valid_from", "When a sync first saw this status.", nullable=False),
        _instant("valid_to", "When a sync first saw the next status; NULL for the present one."),
    )


def _media_content() -> tuple[Column[object] | Column[str] | Column[int], ...]:
    return (
        _text("media_type", "Kind of media as the API says it, such as IMAGE, VIDEO, CAROUSEL_ALBUM."),
        _text("caption", "The caption as published."),
        _text("permalink", "Address of the item on the social network."),
        _text("media_url", "Address of the picture or film when the item last changed; a signature in it expires."),
        _instant("published_at", "When the item was published."),
        _whole("like_count", "Likes when last seen; NULL where the account hides them."),
        _whole("comments_count", "Comments when last seen."),
        Column(
            "payload", JSON, comment="The whole item as the API sent it when it last changed, JSON.", nullable=False
        ),
    )


def _removal() -> tuple[Column[object] | Column[str], ...]:
    return (
        _instant("removed_at", "When a complete walk first missed it; NULL while it is there."),
        _text("removal", "Why it is gone: removed, or expired (a story past its 24 hours)."),
    )


def _quarantined() -> tuple[Column[object] | Column[str] | Column[int], ...]:
    return (
        _text("reason", "Why the record could not become a row.", nullable=False),
        _text("resource", "accounts or media.", nullable=False),
        _text("account_id", "The account whose page carried it; empty for the catalogue.", nullable=False),
        _text("surface", "posts or stories; empty for the catalogue.", nullable=False),
        _whole("page", "Page of the walk, from 1.", INTEGER),
        _whole("position", "Place in the page, from 0; NULL when the whole page was set aside.", INTEGER),
        _text("payload", "The record as the API sent it.", nullable=False),
        _text("run_id", "The run that first met it.", nullable=False),
        _text("correlation_id", "X-Correlation-ID of the response that carried it."),
        _instant("seen_at", "When it was first met.", nullable=False),
    )


def _fields() -> tuple[Column[object] | Column[str] | Column[int], ...]:
    return (
        _text("resource", "Where it was met: account, account_page or media_page.", nullable=False),
        _text("path", "Path of the field in the JSON.", nullable=False),
        _text("column_name", "The column that holds it; NULL while only the payload does."),
        _text("type", "The column's type."),
        _instant("first_seen_at", "When the field was first met.", nullable=False),
        _instant("last_type_change_at", "When its type last widened."),
        _whole("items", "How many records carried it when last counted."),
    )


def _run() -> tuple[Column[object] | Column[str] | Column[int], ...]:
    return (
        _text("run_id", "The run's id.", nullable=False),
        _text("kind", "sync or backfill.", nullable=False),
        _text("state", "running, complete, partial, failed or interrupted.", nullable=False),
        _instant("started_at", "When it began.", nullable=False),
        _instant("ended_at", "When it ended."),
        _text("carries_on", "The run, cut short, that it took over."),
        _whole("accounts", "Accounts listed."),
        _whole("partitions", "Partitions it owed an outcome: the catalogue, and each account x surface."),
        _whole("pages", "Pages landed."),
        _whole("items", "Records landed, accounts and media."),
        _whole("added", "Media items never seen before."),
        _whole("changed", "Media items whose content or counts changed."),
        _whole("removed", "Media items marked removed."),
        _whole("expired", "Stories marked expired."),
        _whole("returned", "Media items that came back."),
        _whole("quarantined", "Records set aside."),
        _text("error_code", "The error that stopped it, or else the one that most of its partitions met."),
        _text("detail", "What a person should know of it, one line."),
        _text("version", "The gramhouse that ran it.", nullable=False),
    )


def _outcome() -> tuple[Column[object] | Column[str] | Column[int], ...]:
    return (
        _text("run_id", "The run.", nullable=False),
        *_partition(),
        _text("outcome", "complete, skipped, deferred, denied, not_found or failed.", nullable=False),
        _whole("pages", "Pages this run landed of it."),
        _whole("items", "Records this run landed of it."),
        _text("error_code", "The API's error code, or gramhouse's own for what never became an answer."),
        _whole("http_status", "HTTP status of the last answer.", INTEGER),
        _text("correlation_id", "X-Correlation-ID of the last answer: name it to the API's support."),
        _instant("resume_after", "Not to be asked for again before this."),
        _text("detail", "What a person should know of it, one line."),
        _instant("started_at", "When the run turned to it.", nullable=False),
        _instant("ended_at", "When its outcome was known.", nullable=False),
    )


core_accounts = Table(
    "accounts",
    WAREHOUSE,
    *_account(),
    _instant("status_since", "When a sync first saw the present status.", nullable=False),
    *_account_life(),
    _text("walk_id", "The walk of the catalogue that last listed it.", nullable=False),
    schema="core",
    comment="Accounts, one row each.",
)

core_status_history = Table(
    "account_status_history",
    WAREHOUSE,
    _account_id(),
    _text("status", "active or token_expired.", nullable=False),
    *_status_period(),
    schema="core",
    comment="Every status an account has had, one row per period.",
)

core_media = Table(
    "media",
    WAREHOUSE,
    _account_id(),
    _surface(),
    _media_id(),
    *_media_content(),
    _whole("digest", "Digest of the payload without volatile URL parameters."),
    _instant("first_seen_at", "When a sync first saw it.", nullable=False),
    _instant("written_at", "The sighting that last wrote this row.", nullable=False),
    _instant("changed_at", "When what it says last changed.", nullable=False),
    *_removal(),
    schema="core",
    comment="Media items as last seen, one row each. Rows that did not change are not rewritten.",
)

core_walks = Table(
    "walks",
    WAREHOUSE,
    *_partition(),
    _text("walk_id", "The last complete walk that was folded.", nullable=False),
    _instant("complete_at", "When its last page was received.", nullable=False),
    schema="core",
    comment="The last complete walk of each partition: what it saw was there at complete_at.",
)

core_quarantine = Table(
    "quarantine", WAREHOUSE, *_quarantined(), schema="core", comment="Records set aside, with their request."
)

core_fields = Table(
    "fields", WAREHOUSE, *_fields(), schema="core", comment="Fields met that the contract does not know."
)

core_runs = Table(
    "runs",
    WAREHOUSE,
    *_run(),
    _instant("published_at", "When analysts were given what it left; NULL while they were not."),
    schema="core",
    comment="Runs, one row each.",
)

core_outcomes = Table(
    "run_outcomes",
    WAREHOUSE,
    *_outcome(),
    schema="core",
    comment="What became of each partition in each run: exactly one row.",
)

ops_staging = Table(
    "staging",
    WAREHOUSE,
    _whole("seq", "Order of landing."),
    *_partition(),
    _text("run_id", "The run that landed it.", nullable=False),
    _text("walk_id", "The walk it belongs to.", nullable=False),
    _whole("page", "Page of the walk, from 1.", INTEGER),
    _instant("received_at", "When the response was received.", nullable=False),
    _text("correlation_id", "X-Correlation-ID of the response."),
    _text("body", "The page as the API sent it.", nullable=False),
    _text("set_aside", "JSON list of {position, reason, payload} that must not become rows."),
    _text("unknown_fields", "JSON list of field paths that the contract does not know."),
    schema="ops",
    comment="Landed pages that are not folded yet.",
)

ops_checkpoints = Table(
    "checkpoints",
    WAREHOUSE,
    _whole("seq", "Order of landing; the last row of a partition counts."),
    *_partition(),
    _text("walk_id", "The walk.", nullable=False),
    _text("run_id", "The last run that took part in it.", nullable=False),
    _text("cursor", "Cursor of the page to ask for next, unchanged."),
    _whole("pages", "Pages of the walk landed so far."),
    _whole("items", "Records of the walk landed so far."),
    _text("state", "walking, complete or abandoned.", nullable=False),
    _instant("started_at", "When the walk began.", nullable=False),
    _instant("updated_at", "When its last page was received.", nullable=False),
    schema="ops",
    comment="Progress of walks, appended with each landed page; the fold keeps the last row of each.",
)

ops_seen = Table(
    "seen",
    WAREHOUSE,
    _text("walk_id", "The walk, not complete yet.", nullable=False),
    _account_id(),
    _surface(),
    _media_id(),
    schema="ops",
    comment="What walks that are not complete have seen in pages already folded.",
)

ops_missing = Table(
    "missing",
    WAREHOUSE,
    _account_id(),
    _surface(),
    _media_id(),
    _instant("since", "When a complete walk first missed it.", nullable=False),
    _instant("last_seen_at", "When a walk last saw it.", nullable=False),
    schema="ops",
    comment="Items of a mass disappearance that a second complete walk has yet to confirm.",
)

ops_holds = Table(
    "holds",
    WAREHOUSE,
    _text("scope", "Tenant scope that was limited.", nullable=False),
    _instant("resume_after", "Not to be asked again before this.", nullable=False),
    schema="ops",
    comment="Promises to wait, kept over a restart.",
)

accounts = Table(
    "accounts",
    SNAPSHOT,
    *_account(),
    _instant("token_expired_since", "When a sync first saw the token expired; NULL while it is active."),
    *_account_life(),
    comment="Accounts, one row each, as the API last listed them.",
)

account_status_history = Table(
    "account_status_history",
    SNAPSHOT,
    _account_id(),
    _text("status", "active or token_expired.", nullable=False),
    *_status_period(),
    comment="Every status an account has had, one row per period.",
)

media = Table(
    "media",
    SNAPSHOT,
    _account_id(),
    _surface(),
    _media_id(),
    _text("ig_username", "The account's present name on the social network."),
    *_media_content(),
    _instant("first_seen_at", "When a sync first saw it.", nullable=False),
    _instant("last_seen_at", "When a walk last saw it.", nullable=False),
    _instant("changed_at", "When what it says last changed.", nullable=False),
    *_removal(),
    comment="Media items as last seen, one row each; what is gone stays, marked in removed_at.",
)

fields = Table("fields", SNAPSHOT, *_fields(), comment="Fields met that the contract does not know.")

quarantine = Table("quarantine", SNAPSHOT, *_quarantined(), comment="Records set aside, with their request.")

runs = Table("runs", SNAPSHOT, *_run(), comment="Runs, one row each.")

run_outcomes = Table(
    "run_outcomes",
    SNAPSHOT,
    *_outcome(),
    comment="What became of each partition in each run: exactly one row.",
)

walks = Table(
    "walks",
    SNAPSHOT,
    *_partition(),
    _instant("complete_at", "When the last complete walk received its last page.", nullable=False),
    comment="When each partition was last walked to its end.",
)

published = Table(
    "published",
    SNAPSHOT,
    _instant("published_at", "When this snapshot was made.", nullable=False),
    _text("version", "The gramhouse that made it.", nullable=False),
    comment="What this file is: one row.",
)

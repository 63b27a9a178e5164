"""The columns of all tables, each with its comment; shared columns are declared once."""

from sqlalchemy import BIGINT, BOOLEAN, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, Column
from sqlalchemy.types import TypeEngine

INSTANT = TIMESTAMP(timezone=True)

# Long, distinct texts: zstd needs half of the space of the compression that DuckDB would choose, and less CPU time.
_PACKED = frozenset({"payload", "permalink", "media_url"})


def packing(name: str) -> str:
    """Return the compression clause of the declaration of a column with this name, or an empty string."""
    return " USING COMPRESSION zstd" if name in _PACKED else ""


REMOVALS_UNDECIDED_SINCE = (
    "Since when scans that rejected records have missed items, which are not marked as removed; NULL while none is so."
)
RECENT_AT = "When a recent scan since then reached known territory; NULL when none has."
COVERED_FROM = (
    "What was published after this was looked through at recent_at; of what is older, complete_at says when it was last"
    " seen."
)
ITEM_ORDER = "newest_first where full scans found posts listed so, pins aside; NULL where they did not, or for stories."
ORDER_BROKEN_BY = "The post by which the last full scan found another order; empty for one without an id."
FULL_SHARE = "After which part of the refresh interval, from complete_at, the next full scan is due; 0 to 1."


def text(name: str, comment: str, *, nullable: bool = True) -> Column[str]:
    return Column(name, VARCHAR, comment=comment, nullable=nullable)


def instant(name: str, comment: str, *, nullable: bool = True) -> Column[object]:
    return Column(name, INSTANT, comment=comment, nullable=nullable)


def whole(name: str, comment: str, kind: TypeEngine[int] | type[TypeEngine[int]] = BIGINT) -> Column[int]:
    return Column(name, kind, comment=comment)


def flag(name: str, comment: str) -> Column[bool]:
    return Column(name, BOOLEAN, comment=comment)


def share(name: str, comment: str) -> Column[float]:
    return Column(name, DOUBLE, comment=comment)


def seconds(name: str, comment: str, *, nullable: bool = True) -> Column[float]:
    return Column(name, DOUBLE, comment=comment, nullable=nullable)


def account_id() -> Column[str]:
    comment = "The account's id, a UUID in lower case; in older warehouses as the API wrote it first."
    return text("account_id", comment, nullable=False)


def surface() -> Column[str]:
    return text("surface", "Where the item was listed: posts or stories.", nullable=False)


def media_id() -> Column[str]:
    return text("media_id", "The item's own id, always text.", nullable=False)


def partition() -> tuple[Column[str], ...]:
    return (
        text("resource", "What was scanned: accounts (the catalogue) or media.", nullable=False),
        text("account_id", "The account scanned; empty for the catalogue.", nullable=False),
        text("surface", "posts or stories; empty for the catalogue.", nullable=False),
    )


def status() -> Column[str]:
    return text("status", "active or token_expired; removed while the catalogue did not list it.", nullable=False)


def account() -> tuple[Column[str], ...]:
    return (
        account_id(),
        text("ig_username", "The account's name on the social network.", nullable=False),
        text("public_id", "The account's short public id.", nullable=False),
        text("status", "active, or token_expired: its access token must be renewed.", nullable=False),
    )


def account_life() -> tuple[Column[object], ...]:
    return (
        instant("first_seen_at", "When a sync first saw the account.", nullable=False),
        instant("last_seen_at", "When a sync last saw the account.", nullable=False),
        instant("removed_at", "When a complete scan of the catalogue no longer listed it; NULL while it does."),
    )


def status_period() -> tuple[Column[object], ...]:
    return (
        instant("valid_from", "When a sync first saw this status.", nullable=False),
        instant("valid_to", "When a sync first saw the next status; NULL for the present one."),
    )


def media_content() -> tuple[Column[object] | Column[str] | Column[int], ...]:
    return (
        text("media_type", "Kind of media as the API names it, such as IMAGE, VIDEO, CAROUSEL_ALBUM."),
        text("caption", "The caption as published."),
        text("permalink", "Address of the item on the social network."),
        text("media_url", "Address of the picture or film as it was last received; a signature in it expires."),
        instant("published_at", "When the item was published."),
        whole("like_count", "Likes when last seen; NULL where the account hides them."),
        whole("comments_count", "Comments when last seen."),
    )


def version_content() -> tuple[Column[object] | Column[str] | Column[int], ...]:
    """Return the columns of `media_content` that belong to a version: without counts and addresses of media."""
    names = {"media_type", "caption", "permalink", "published_at"}
    return tuple(column for column in media_content() if column.name in names)


def overflow() -> Column[str]:
    return text(
        "overflow",
        "JSON, by path: what the item carries in fields that have no column; NULL when it is all in columns.",
    )


def removal() -> tuple[Column[object] | Column[str], ...]:
    return (
        instant("removed_at", "When a complete scan first missed it; NULL while it is there."),
        text("removal", "Why it is gone: removed, or expired (a story past its 24 hours)."),
    )


def quarantined() -> tuple[Column[object] | Column[str] | Column[int], ...]:
    return (
        text("reason", "Why the record could not become a row.", nullable=False),
        text("resource", "accounts or media.", nullable=False),
        text("account_id", "The account whose page carried it; empty for the catalogue.", nullable=False),
        text("surface", "posts or stories; empty for the catalogue.", nullable=False),
        whole("page", "Page of the scan, from 1.", INTEGER),
        whole("position", "Position in the page, from 0; NULL when the whole page was rejected.", INTEGER),
        text("payload", "The record as the API sent it.", nullable=False),
        text("run_id", "The run that first received it.", nullable=False),
        text("correlation_id", "X-Correlation-ID of the response that carried it."),
        instant("seen_at", "When it was first received.", nullable=False),
        instant("last_seen_at", "When it was last received.", nullable=False),
    )


def version() -> tuple[Column[object] | Column[str] | Column[int], ...]:
    return (
        instant("valid_from", "When a sync first saw this version.", nullable=False),
        instant("valid_to", "When a sync first saw the next one.", nullable=False),
        *version_content(),
    )


def raw_landed() -> Column[int]:
    return whole("raw_landed", "Landing number of the raw row it was decoded from; NULL where its bytes are not kept.")


def metric() -> tuple[Column[object] | Column[str] | Column[int], ...]:
    return (
        text("metric", "What is counted: the name of a column of media, such as like_count.", nullable=False),
        whole("value", "The count from then on; NULL when the API stopped sending it."),
        instant("observed_at", "When a sync first saw this value.", nullable=False),
    )


def child() -> tuple[Column[str] | Column[int], ...]:
    return (
        account_id(),
        surface(),
        media_id(),
        Column("position", INTEGER, comment="Position in the item's list, from 0.", nullable=False),
    )


def media_child() -> tuple[Column[str], ...]:
    return (
        text("child_id", "The child's own id, always text."),
        text("media_type", "Kind of media as the API names it."),
        text("media_url", "Address of the picture or film as it was last received; a signature in it expires."),
    )


def field() -> tuple[Column[object] | Column[str] | Column[int], ...]:
    return (
        text(
            "resource",
            "Where it was found: media, a child table (media_children), account, account_page or media_page.",
            nullable=False,
        ),
        text("path", "Path of the field; for media a JSON Pointer, as in raw_media.payload ->> path.", nullable=False),
        text("column_name", "The column, or child table, that holds it; NULL while only the raw store does."),
        text("type", "The column's type; ROWS for a child table."),
        instant("first_seen_at", "When the field was first received.", nullable=False),
        instant("last_type_change_at", "When values of another type were last found there for the first time."),
        whole("items", "How many items, or children, carry it in this snapshot."),
    )


def run_counts() -> tuple[Column[int], ...]:
    return (
        whole("pages", "Pages it landed, as far as they are merged; NULL where an older gramhouse did not record it."),
        whole("items", "Records on those pages, accounts and media."),
        whole("accounts_removed", "Accounts marked removed because its catalogue was complete without them."),
        whole("added", "Media items never seen before."),
        whole("changed", "Changes of media items, in content or counts: one for each."),
        whole("removed", "Media items marked removed because its scan was complete without them."),
        whole("expired", "Stories marked expired because its scan was complete without them."),
        whole("returned", "Media items marked removed or expired that were seen again."),
        whole("quarantined", "Records that went to quarantine."),
    )


def run(*counts: Column[int]) -> tuple[Column[object] | Column[str] | Column[int] | Column[bool], ...]:
    return (
        text("run_id", "The run's id.", nullable=False),
        whole("seq", "Order in which runs began, from 1; it does not depend on the clock."),
        text(
            "kind",
            "sync, backfill or quarantine_retry; totals: not a run, but the counts of all runs no longer listed.",
            nullable=False,
        ),
        text("selection", "What it was asked to scan; NULL: everything."),
        text("reason", "The reason given for it."),
        text(
            "state",
            "running, complete, partial, failed or interrupted; totals in that kind's row.",
            nullable=False,
        ),
        instant("started_at", "When it began.", nullable=False),
        instant("ended_at", "When it ended."),
        text("resumes", "The interrupted run that it resumes."),
        text("base_url", "Address of the service, without /api/v1; NULL for runs of older versions."),
        Column("accept_removals", BOOLEAN, comment="Whether a person confirmed account removals beforehand."),
        whole("accounts", "Accounts listed."),
        whole("accounts_missing", "Accounts missing from the catalogue whose removal awaits confirmation."),
        whole("partitions", "Its partitions: the catalogue, and each account x surface."),
        whole("requests", "Requests it made, retries included; NULL while it has no end, and before 0.2."),
        whole("full_requests", "Requests it would have made with full scans alone, by the pages of the last ones."),
        *counts,
        text("error_code", "The error that stopped it, or else the one that most of its partitions had."),
        text("detail", "What a person should know of it, one line."),
        text("version", "The gramhouse that ran it.", nullable=False),
    )


def outcome() -> tuple[Column[object] | Column[str] | Column[int], ...]:
    return (
        text("run_id", "The run.", nullable=False),
        *partition(),
        text("outcome", "complete, recent, skipped, deferred, denied, not_found or failed.", nullable=False),
        whole("pages", "Pages this run landed of it."),
        whole("items", "Records this run landed of it."),
        text("error_code", "The API's error code, or gramhouse's own where there was no answer."),
        whole("http_status", "HTTP status of the last answer.", INTEGER),
        text("correlation_id", "X-Correlation-ID of the last answer: name it to the API's support."),
        instant("resume_after", "Not to be asked for again before this."),
        text("detail", "What a person should know of it, one line."),
        instant("started_at", "When the run began it.", nullable=False),
        instant("ended_at", "When its outcome was known.", nullable=False),
    )


def run_warning() -> tuple[Column[str] | Column[int] | Column[bool], ...]:
    return (
        text("run_id", "The run.", nullable=False),
        text("code", "What kind of warning it is; a run has at most one of each.", nullable=False),
        Column("count", BIGINT, comment="How many records, accounts or values it concerns.", nullable=False),
        text("detail", "What happened, one line.", nullable=False),
        text("hint", "What to do about it, one line; NULL when there is nothing to do."),
        Column("makes_partial", BOOLEAN, comment="Whether the run is partial because of it.", nullable=False),
    )

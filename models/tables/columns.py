"""The columns of all tables, each with its comment; shared columns are declared once."""

from models.tables.table import Column

INSTANT = "TIMESTAMP WITH TIME ZONE"

FULL_SHARE = "The next full scan is due after this part (0 to 1) of the refresh interval, counted from complete_at."


def text(name: str, comment: str, *, nullable: bool = True) -> Column:
    return Column(name, "VARCHAR", comment, nullable)


def instant(name: str, comment: str, *, nullable: bool = True) -> Column:
    return Column(name, INSTANT, comment, nullable)


def whole(name: str, comment: str, *, nullable: bool = True) -> Column:
    return Column(name, "BIGINT", comment, nullable)


def small(name: str, comment: str, *, nullable: bool = True) -> Column:
    return Column(name, "INTEGER", comment, nullable)


def flag(name: str, comment: str, *, nullable: bool = True) -> Column:
    return Column(name, "BOOLEAN", comment, nullable)


def share(name: str, comment: str) -> Column:
    return Column(name, "DOUBLE", comment)


def seconds(name: str, comment: str, *, nullable: bool = True) -> Column:
    return Column(name, "DOUBLE", comment, nullable)


def account_id() -> Column:
    comment = "The account's id, a UUID in lower case."
    return text("account_id", comment, nullable=False)


def surface() -> Column:
    return text("surface", "Where the item was listed: posts or stories.", nullable=False)


def media_id() -> Column:
    return text("media_id", "The item's id, always text.", nullable=False)


def partition() -> tuple[Column, ...]:
    return (
        text("resource", "What was scanned: accounts (the catalogue) or media.", nullable=False),
        text("account_id", "The scanned account; empty for the catalogue.", nullable=False),
        text("surface", "posts or stories; empty for the catalogue.", nullable=False),
    )


def completed_scan() -> tuple[Column, ...]:
    return (
        instant(
            "removals_undecided_since",
            "Since when missing items are not marked as removed, because scans rejected records; NULL if there are"
            " none.",
        ),
        instant(
            "recent_at",
            "When a recent scan after complete_at last reached posts seen by a closed scan; NULL if none has.",
        ),
        instant(
            "covered_from",
            "Posts published after this are as of recent_at, older ones as of complete_at; NULL if no recent scan"
            " followed complete_at.",
        ),
        whole("pages", "Pages of the last full scan."),
        whole("items", "Records on those pages."),
        text(
            "item_order",
            "newest_first if full scans found the posts in this order, except for pinned ones; NULL otherwise.",
        ),
        text(
            "order_broken_by",
            "Id of the first post out of order in the last full scan; empty if it has no id; NULL if none.",
        ),
    )


def status() -> Column:
    return text("status", "active or token_expired; removed while the account was marked as removed.", nullable=False)


def account() -> tuple[Column, ...]:
    return (
        account_id(),
        text("ig_username", "The account's name on the social network.", nullable=False),
        text("public_id", "The account's short public id.", nullable=False),
        text("status", "active, or token_expired: its access token must be renewed.", nullable=False),
    )


def account_life() -> tuple[Column, ...]:
    return (
        instant("first_seen_at", "When a sync first saw the account.", nullable=False),
        instant("last_seen_at", "When a sync last saw the account.", nullable=False),
        instant(
            "removed_at",
            "When a complete scan of the catalogue first did not list it; NULL if it is not marked as removed.",
        ),
    )


def status_period() -> tuple[Column, ...]:
    return (
        instant("valid_from", "When a sync first saw this status.", nullable=False),
        instant("valid_to", "When a sync first saw the next status; NULL for the current one."),
    )


def media_content() -> tuple[Column, ...]:
    return (
        text("media_type", "Kind of media as the API names it, such as IMAGE, VIDEO, CAROUSEL_ALBUM."),
        text("caption", "The caption as published."),
        text("permalink", "URL of the item on the social network."),
        text("media_url", "URL of the image or video as last received; a signature in it expires."),
        instant("published_at", "When the item was published."),
        whole(
            "like_count", "Likes when last seen; NULL if the API sent none, for example because the account hides them."
        ),
        whole("comments_count", "Comments when last seen; NULL if the API sent none."),
    )


def version_content() -> tuple[Column, ...]:
    """Return the columns of `media_content` that belong to a version: without counts and addresses of media."""
    names = {"media_type", "caption", "permalink", "published_at"}
    return tuple(column for column in media_content() if column.name in names)


def overflow() -> Column:
    return text(
        "overflow",
        "JSON object by path: values of fields that have no column; NULL if there are none.",
    )


def removal() -> tuple[Column, ...]:
    return (
        instant("removed_at", "When the first scan that missed it ended; NULL if it is not marked as removed."),
        text("removal", "removed, or expired (a story that was at least 24 hours old); NULL if removed_at is NULL."),
    )


def quarantined() -> tuple[Column, ...]:
    return (
        text("reason", "Why the record could not become a row.", nullable=False),
        text("resource", "accounts or media.", nullable=False),
        text("account_id", "The account whose page contained it; empty for the catalogue.", nullable=False),
        text("surface", "posts or stories; empty for the catalogue.", nullable=False),
        small("page", "Page of the scan, from 1."),
        small("position", "Position in the page, from 0; NULL if the whole page was rejected."),
        text("payload", "The record as the API sent it; in one that is not JSON, \\xNN is a byte.", nullable=False),
        text("run_id", "The run that first received it.", nullable=False),
        text("correlation_id", "X-Correlation-ID of the response that first contained it."),
        instant("seen_at", "When it was first received.", nullable=False),
        instant("last_seen_at", "When it was last received.", nullable=False),
    )


def version() -> tuple[Column, ...]:
    return (
        instant("valid_from", "When a sync first saw this version.", nullable=False),
        instant("valid_to", "When a sync first saw the next version.", nullable=False),
        *version_content(),
    )


def raw_landed() -> Column:
    return whole("raw_landed", "Landing number of its row in the raw store.")


def metric() -> tuple[Column, ...]:
    return (
        text("metric", "Name of the count: a column of media, such as like_count.", nullable=False),
        whole("value", "The count from observed_at on; NULL if the API stopped sending it."),
        instant("observed_at", "When a sync first saw this value.", nullable=False),
    )


def child() -> tuple[Column, ...]:
    return (
        account_id(),
        surface(),
        media_id(),
        small("position", "Position in the item's list, from 0.", nullable=False),
    )


def media_child() -> tuple[Column, ...]:
    return (
        text("child_id", "The child's id, always text."),
        text("media_type", "Kind of media as the API names it."),
        text("media_url", "URL of the image or video as last received; a signature in it expires."),
    )


def field() -> tuple[Column, ...]:
    return (
        text(
            "resource",
            "Where it was found: media, a child table such as media_children, account, account_page or media_page.",
            nullable=False,
        ),
        text("path", "Path of the field; for media a JSON Pointer, as in raw_media.payload ->> path.", nullable=False),
        text("column_name", "The column or child table that holds it; NULL if it has none."),
        text("type", "The column's type; ROWS for a child table."),
        instant("first_seen_at", "When the field was first received.", nullable=False),
        instant(
            "last_type_change_at",
            "When a value of a new type was last found there; NULL while all values have one type.",
        ),
        whole("items", "Number of items, or children, that have it in this snapshot; NULL if it cannot be counted."),
    )


def run_counts() -> tuple[Column, ...]:
    return (
        whole("pages", "Pages it landed, as far as they are merged."),
        whole("items", "Records on those pages, accounts and media."),
        whole("accounts_removed", "Accounts marked as removed by its scan of the catalogue."),
        whole("added", "New media items."),
        whole("changed", "Changes of media items, in content or counts; an item that changed twice counts twice."),
        whole("removed", "Media items marked as removed by its scans."),
        whole("expired", "Stories marked as expired by its scans."),
        whole("returned", "Media items marked as removed or expired that were seen again."),
        whole("quarantined", "Records that went to quarantine."),
    )


def run(*counts: Column) -> tuple[Column, ...]:
    return (
        text("run_id", "The run's id.", nullable=False),
        whole("seq", "Order in which runs began, from 1; it does not depend on the clock."),
        text(
            "kind",
            "sync or backfill; totals: not a run, but the sums of the runs no longer listed.",
            nullable=False,
        ),
        text("selection", "What it was asked to scan; NULL for everything."),
        text("reason", "The reason that was given for it."),
        text(
            "state",
            "running, complete, partial, failed or interrupted; totals in the row of kind totals.",
            nullable=False,
        ),
        instant("started_at", "When it began.", nullable=False),
        instant("ended_at", "When it ended."),
        text("resumes", "The interrupted run that it resumes."),
        text("base_url", "Address of the API, without /api/v1."),
        flag("accept_removals", "Whether it was started with --accept-removals."),
        whole("accounts", "Accounts listed by the catalogue; for a backfill, accounts selected."),
        whole("accounts_missing", "Accounts missing from the catalogue whose removal awaits confirmation."),
        whole("partitions", "Partitions: the catalogue, and each account x surface."),
        whole(
            "requests",
            "Requests it sent, retries included; NULL while it runs, if it was killed, and before version 0.2.",
        ),
        *counts,
        text("error_code", "The error that stopped it, or else the main reason why it is not complete."),
        text("detail", "What a person should know of it, one line."),
        text("version", "The version of gramhouse that ran it.", nullable=False),
    )


def outcome() -> tuple[Column, ...]:
    return (
        text("run_id", "The run.", nullable=False),
        *partition(),
        text("outcome", "complete, recent, skipped, deferred, denied, not_found or failed.", nullable=False),
        whole("pages", "Pages of the partition that this run landed."),
        whole("items", "Records of the partition that this run landed."),
        text("error_code", "The API's error code, or gramhouse's own if it received none."),
        small("http_status", "HTTP status of the last response."),
        text("correlation_id", "X-Correlation-ID of the last response, for the API's support."),
        instant("resume_after", "No request is sent before this; NULL if there is nothing to wait for."),
        text("detail", "What a person should know of it, one line."),
        instant("started_at", "When the run began this partition.", nullable=False),
        instant("ended_at", "When its outcome was known.", nullable=False),
    )


def run_warning() -> tuple[Column, ...]:
    return (
        text("run_id", "The run.", nullable=False),
        text("code", "Kind of warning; a run has at most one of each kind.", nullable=False),
        whole("count", "How many records, accounts or values it concerns.", nullable=False),
        text("detail", "What happened, one line.", nullable=False),
        text("hint", "What to do about it, one line; NULL if there is nothing to do."),
        flag("makes_partial", "Whether the run is partial because of it.", nullable=False),
    )

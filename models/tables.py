"""The warehouse's tables and columns, each with a comment, as SQLAlchemy Core metadata.

Schema `core` has the merged data, schema `ops` the state that a run needs to continue. The tables of a new file, the
comparison with migrated ones, and statements on single rows come from these declarations. The analysts' file has a copy
of `core`, with the views of `models/views`.

No table has a key or an index: in DuckDB they cost far more than they gain, so the merge ensures uniqueness. A table's
`info` has the `order` of its rows in a compacted file: by account, because most queries of media are about one account.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import (
    ARRAY,
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    JSON,
    TIMESTAMP,
    VARCHAR,
    Column,
    LargeBinary,
    MetaData,
    Table,
)
from sqlalchemy.types import TypeEngine

METADATA = MetaData()

INSTANT = TIMESTAMP(timezone=True)

_Type = type[TypeEngine[Any]] | TypeEngine[Any]

# Long, distinct texts: zstd needs half of the space of the compression that DuckDB would choose, and less CPU time.
_PACKED = {"compression": "zstd"}


def _optional(name: str, type_: _Type, comment: str) -> Column[Any]:
    return Column(name, type_, comment=comment)


def _required(name: str, type_: _Type, comment: str) -> Column[Any]:
    return Column(name, type_, nullable=False, comment=comment)


def _account_id() -> Column[Any]:
    return _required("account_id", VARCHAR, "The account's id, a UUID in lower case.")


def _item() -> tuple[Column[Any], ...]:
    return (
        _account_id(),
        _required("surface", VARCHAR, "Where the item was listed, such as posts or stories."),
        _required("media_id", VARCHAR, "The item's id, always text."),
    )


def _partition() -> tuple[Column[Any], ...]:
    return (
        _required("resource", VARCHAR, "What was scanned: accounts (the catalogue) or media."),
        _required("account_id", VARCHAR, "The scanned account; empty for the catalogue."),
        _required("surface", VARCHAR, "The feed, such as posts or stories; empty for the catalogue."),
    )


def _content() -> tuple[Column[Any], ...]:
    return (
        _optional("media_type", VARCHAR, "Kind of media as the API names it, such as IMAGE, VIDEO, CAROUSEL_ALBUM."),
        _optional("caption", VARCHAR, "The caption as published."),
        Column("permalink", VARCHAR, info=_PACKED, comment="URL of the item on the social network."),
    )


def _published_at() -> Column[Any]:
    return _optional("published_at", INSTANT, "When the item was published.")


def _overflow() -> Column[Any]:
    return _optional(
        "overflow", VARCHAR, "JSON object by path: values of fields that have no column; NULL if there are none."
    )


def _raw_landed() -> Column[Any]:
    return _optional("raw_landed", BIGINT, "Landing number of its row in the raw store.")


def _run_seq(comment: str) -> Column[Any]:
    return _optional("run_seq", BIGINT, f"{comment}, as seq in runs; NULL if unknown.")


def _full_share() -> Column[Any]:
    return _optional(
        "full_share",
        DOUBLE,
        "The next full scan is due at complete_at + full_share * published.full_refresh_every. Between 0 and 1 at"
        " first, so that full scans of the accounts are spread; 1 after one that was due.",
    )


core_accounts = Table(
    "accounts",
    METADATA,
    _account_id(),
    _required("ig_username", VARCHAR, "The account's name on the social network."),
    _required("public_id", VARCHAR, "The account's short public id."),
    _required("status", VARCHAR, "active, or token_expired: its access token must be renewed."),
    _required("status_since", INSTANT, "When a sync first saw the current status."),
    _required("first_seen_at", INSTANT, "When a sync first saw the account."),
    _required("last_seen_at", INSTANT, "When a sync last saw the account."),
    _optional(
        "removed_at",
        INSTANT,
        "When the first scan of the catalogue that did not list it ended; NULL if it is not marked as removed.",
    ),
    _required("scan_id", VARCHAR, "The scan of the catalogue that last listed it."),
    _optional("seen_seq", BIGINT, "The landing that last listed it."),
    _optional("listed_as", VARCHAR, "The id as the API last wrote it, for requests; NULL if it equals account_id."),
    _optional(
        "unknown_status", VARCHAR, "The status it was last listed with, if gramhouse does not know it; otherwise NULL."
    ),
    _run_seq("The run that last listed it, or marked it as removed"),
    schema="core",
    comment="Accounts, one row each.",
)

core_status_history = Table(
    "account_status_history",
    METADATA,
    _account_id(),
    _required("status", VARCHAR, "active or token_expired; removed while the account was marked as removed."),
    _required("valid_from", INSTANT, "When a sync first saw this status."),
    _optional("valid_to", INSTANT, "When a sync first saw the next status; NULL for the current one."),
    _run_seq("The run that first saw this status, or marked the account as removed"),
    schema="core",
    comment="Every status an account has had, one row per period.",
)


def item_tables(
    name: str,
    noun: str,
    content: Callable[[], Sequence[Column[Any]]] = tuple,
    addresses: Sequence[Column[Any]] = (),
    counts: Sequence[Column[Any]] = (),
) -> tuple[Table, Table, Table]:
    """Declare the tables of a feed's items: the items, the earlier versions of their content, and their counts.

    `noun` is the word for several items. Columns of fields are added as these are found. `content`, `addresses` and
    `counts` are columns that the mapping fills.
    """
    items = Table(
        name,
        METADATA,
        *_item(),
        *content(),
        *addresses,
        _published_at(),
        *counts,
        _overflow(),
        _optional(
            "payload_hash",
            LargeBinary,
            "Hash of the received payload (XXH3-128): an item with an equal one is not decoded.",
        ),
        _raw_landed(),
        _required("first_seen_at", INSTANT, "When a sync first saw it."),
        _required("written_at", INSTANT, "When the page that last changed this row was received."),
        _optional(
            "written_seq",
            BIGINT,
            "The landing that last changed this row; NULL if it is older than all landings still referred to.",
        ),
        _required("changed_at", INSTANT, "When its content or a count last changed."),
        _required("content_changed_at", INSTANT, "When its content, without counts, last changed."),
        _optional(
            "removed_at",
            INSTANT,
            "When the first scan that did not list it ended; NULL if it is not marked as removed.",
        ),
        _optional(
            "removal",
            VARCHAR,
            "removed, or expired (a story that was at least 24 hours old); NULL if removed_at is NULL.",
        ),
        _run_seq("The run that last changed this row, apart from media URLs"),
        _optional("first_run_seq", BIGINT, "The run that first saw it, as seq in runs; NULL if unknown."),
        schema="core",
        info={"has_items": True, "order": ("account_id", "surface", "published_at DESC", "media_id")},
        comment=f"{noun.capitalize()} as last seen, one row each. Rows that did not change are not rewritten.",
    )
    superseded = Table(
        f"{name}_superseded",
        METADATA,
        *_item(),
        _required("valid_from", INSTANT, "When a sync first saw this version."),
        _required("valid_to", INSTANT, "When a sync first saw the next version."),
        *content(),
        _published_at(),
        _overflow(),
        _raw_landed(),
        _run_seq("The run that first saw the next version"),
        schema="core",
        info={"order": ("account_id", "surface", "media_id", "valid_from")},
        comment=f"Earlier versions of the content of {noun}; the current one is in {name}.",
    )
    metrics = Table(
        f"{name}_metrics",
        METADATA,
        *_item(),
        _required("metric", VARCHAR, f"Name of the count: a column of {name}, such as like_count."),
        _optional(
            "value",
            BIGINT,
            "The count from observed_at on; NULL if the API stopped sending it, or a mapped column has it.",
        ),
        _required("observed_at", INSTANT, "When a sync first saw this value."),
        _run_seq("The run that first saw this value"),
        schema="core",
        info={"order": ("account_id", "surface", "media_id", "metric", "observed_at")},
        comment=f"Counts of {noun} over time, one row for each change of a count.",
    )
    return items, superseded, metrics


core_media, core_superseded, _ = item_tables(
    "media",
    "media items",
    _content,
    addresses=(
        Column(
            "media_url",
            VARCHAR,
            info=_PACKED,
            comment="URL of the image or video as last received; a signature in it expires.",
        ),
    ),
    counts=(
        _optional(
            "like_count",
            BIGINT,
            "Likes when last seen; NULL if the API sent none, for example because the account hides them.",
        ),
        _optional("comments_count", BIGINT, "Comments when last seen; NULL if the API sent none."),
    ),
)

core_children = Table(
    "media_children",
    METADATA,
    *_item(),
    _required("position", INTEGER, "Position in the item's list, from 0."),
    _run_seq("The run that last wrote the children of this item"),
    _optional("child_id", VARCHAR, "The child's id, always text."),
    _optional("media_type", VARCHAR, "Kind of media as the API names it."),
    Column(
        "media_url",
        VARCHAR,
        info=_PACKED,
        comment="URL of the image or video as last received; a signature in it expires.",
    ),
    schema="core",
    info={"order": ("account_id", "surface", "media_id", "position")},
    comment="Children of media items (such as the pictures of a carousel), one row each.",
)

core_events = Table(
    "events",
    METADATA,
    _required("resource", VARCHAR, "What it happened to: accounts, or the table of the item."),
    _account_id(),
    _optional("surface", VARCHAR, "Where the item was listed; NULL for an account."),
    _optional("media_id", VARCHAR, "The item's id; NULL for an account."),
    _run_seq("The run in which it happened"),
    _required("changed_at", INSTANT, "When it happened; of a removal, when the first scan that missed the item ended."),
    _required("event", VARCHAR, "removed or expired, and returned; or renamed."),
    _optional("ig_username", VARCHAR, "Of an account that was renamed, the name before."),
    schema="core",
    info={"order": ("resource", "account_id", "surface", "media_id", "changed_at")},
    comment="What other tables do not keep: names of accounts, and removals of items that were listed again.",
)

core_completed_scans = Table(
    "completed_scans",
    METADATA,
    *_partition(),
    _required("scan_id", VARCHAR, "The last complete scan that was merged."),
    _required("complete_at", INSTANT, "When the last full scan received its last page."),
    _optional("seq", BIGINT, "The landing of the last page of the last closed scan, full or recent."),
    _optional(
        "removals_undecided_since",
        INSTANT,
        "Time since which missing items are not marked as removed, because scans rejected records; NULL if there are"
        " none.",
    ),
    _optional(
        "recent_at",
        INSTANT,
        "When a recent scan after complete_at last reached posts seen by a closed scan; NULL if none has.",
    ),
    _optional(
        "covered_from",
        INSTANT,
        "Posts published after this are as of recent_at, older ones as of complete_at; NULL if no recent scan followed"
        " complete_at.",
    ),
    _optional("pages", BIGINT, "Pages of the last full scan."),
    _optional("items", BIGINT, "Records on those pages."),
    _optional(
        "item_order",
        VARCHAR,
        "newest_first if full scans found the posts in this order, except for pinned ones; NULL otherwise.",
    ),
    _optional(
        "order_broken_by",
        VARCHAR,
        "Id of the first post that was newer than the one before it, or had no valid time, in the last full scan; empty"
        " if it has no id; NULL if there was none.",
    ),
    _optional(
        "order_proofs", INTEGER, "Consecutive full scans that must still find posts in order before item_order is set."
    ),
    _full_share(),
    schema="core",
    comment="The last full scan of each partition, and the last recent scan after it; one row per partition.",
)

core_quarantine = Table(
    "quarantine",
    METADATA,
    _required("reason", VARCHAR, "Why the record could not become a row."),
    _required("resource", VARCHAR, "accounts or media."),
    _required("account_id", VARCHAR, "The account whose page contained it; empty for the catalogue."),
    _required("surface", VARCHAR, "The feed, such as posts or stories; empty for the catalogue."),
    _optional("page", INTEGER, "Page of the scan, from 1."),
    _optional("position", INTEGER, "Position in the page, from 0; NULL if the whole page was rejected."),
    Column(
        "payload",
        VARCHAR,
        nullable=False,
        info=_PACKED,
        comment="The record as the API sent it; in one that is not JSON, \\xNN is a byte.",
    ),
    _required("run_id", VARCHAR, "The run that first received it."),
    _optional("correlation_id", VARCHAR, "X-Correlation-ID of the response that first contained it."),
    _required("seen_at", INSTANT, "When it was first received."),
    _required("last_seen_at", INSTANT, "When it was last received."),
    _optional(
        "digest", BIGINT, "Digest of the content by which equal records are recognized; NULL if not computed yet."
    ),
    schema="core",
    comment="Records that could not become rows, one row each, with the response that first contained them.",
)

core_fields = Table(
    "fields",
    METADATA,
    _required(
        "resource",
        VARCHAR,
        "Where it was found: media, a child table such as media_children, account, account_page or media_page.",
    ),
    _required("path", VARCHAR, "Path of the field; for media a JSON Pointer, as in raw_media.payload ->> path."),
    _optional("column_name", VARCHAR, "The column or child table that holds it; NULL if it has none."),
    _optional("type", VARCHAR, "The column's type; ROWS for a child table."),
    _required("first_seen_at", INSTANT, "When the field was first received."),
    _optional(
        "last_type_change_at",
        INSTANT,
        "When a value of a new type was last found there; NULL while all values have one type.",
    ),
    _optional(
        "items", BIGINT, "Number of items, or children, that have it in this snapshot; NULL if it cannot be counted."
    ),
    _optional(
        "ordinal", BIGINT, "Order in which its resource's fields were found, from 0; NULL if the order does not matter."
    ),
    _optional("name", VARCHAR, "The name for its column, if it needs one."),
    _optional("child_table", VARCHAR, "The name for its child table, if it needs one."),
    _optional("json_types", VARCHAR, "JSON object: each JSON type found there, and when it was first found."),
    schema="core",
    comment="Fields received that the API's contract does not specify.",
)

core_runs = Table(
    "runs",
    METADATA,
    _required("run_id", VARCHAR, "The run's id."),
    _optional("seq", BIGINT, "Order in which runs began, from 1; it does not depend on the clock."),
    _required("kind", VARCHAR, "sync or backfill; totals: not a run, but the sums of the runs no longer listed."),
    _optional("selection", VARCHAR, "What it was asked to scan; NULL for everything."),
    _optional("reason", VARCHAR, "The reason that was given for it."),
    _required("state", VARCHAR, "running, complete, partial, failed or interrupted; totals in the row of kind totals."),
    _required("started_at", INSTANT, "When it began; 1970 in the row of kind totals."),
    _optional("ended_at", INSTANT, "When it ended."),
    _optional("resumes", VARCHAR, "The interrupted run that it resumes."),
    _optional("base_url", VARCHAR, "Address of the API, without /api/v1."),
    _optional("accept_removals", BOOLEAN, "Whether it was started with --accept-removals."),
    _optional("accounts", BIGINT, "Accounts listed by the catalogue; for a backfill, accounts selected."),
    _optional("accounts_missing", BIGINT, "Accounts missing from the catalogue whose removal awaits confirmation."),
    _optional("partitions", BIGINT, "Number of partitions: the catalogue, and each account once for each surface."),
    _optional(
        "requests",
        BIGINT,
        "Requests it sent, retries included; NULL while it runs, if it was killed, and before version 0.2.",
    ),
    _optional("error_code", VARCHAR, "The error that stopped it, or else the main reason why it is not complete."),
    _optional("detail", VARCHAR, "Explanation, one line."),
    _required("version", VARCHAR, "The version of gramhouse that ran it."),
    _optional("published_at", INSTANT, "When its snapshot was published; NULL before."),
    schema="core",
    comment="Runs, one row each.",
)

core_run_counts = Table(
    "run_counts",
    METADATA,
    _required("run_id", VARCHAR, "The run that landed the pages; empty for runs no longer listed."),
    _optional("pages", BIGINT, "Pages it landed that are merged."),
    _optional("items", BIGINT, "Records on those pages, accounts and media."),
    _optional("accounts_removed", BIGINT, "Accounts marked as removed by its scan of the catalogue."),
    _optional("added", BIGINT, "New media items."),
    _optional(
        "changed", BIGINT, "Changes of media items, in content or counts; an item that changed twice counts twice."
    ),
    _optional("removed", BIGINT, "Media items marked as removed by its scans."),
    _optional("expired", BIGINT, "Stories marked as expired by its scans."),
    _optional("returned", BIGINT, "Media items marked as removed or expired that were seen again."),
    _optional("quarantined", BIGINT, "Records that went to quarantine."),
    schema="core",
    comment="Changes made by each run, updated by every merge in its transaction.",
)

core_outcomes = Table(
    "run_outcomes",
    METADATA,
    _required("run_id", VARCHAR, "The run."),
    *_partition(),
    _required("outcome", VARCHAR, "complete, recent, skipped, deferred, denied, not_found or failed."),
    _optional("pages", BIGINT, "Pages of the partition that this run landed."),
    _optional("items", BIGINT, "Records of the partition that this run landed."),
    _optional("error_code", VARCHAR, "The API's error code, or gramhouse's own if it received none."),
    _optional("http_status", INTEGER, "HTTP status of the last response."),
    _optional("correlation_id", VARCHAR, "X-Correlation-ID of the last response, for the API's support."),
    _optional("resume_after", INSTANT, "No request is sent before this; NULL if there is nothing to wait for."),
    _optional("detail", VARCHAR, "Explanation, one line."),
    _required("started_at", INSTANT, "When the run began this partition."),
    _required("ended_at", INSTANT, "When its outcome was known."),
    schema="core",
    comment="The outcomes of partitions in runs, one row each.",
)

core_warnings = Table(
    "run_warnings",
    METADATA,
    _required("run_id", VARCHAR, "The run."),
    _required("code", VARCHAR, "Kind of warning; a run has at most one of each kind."),
    _required("count", BIGINT, "How many records, accounts or values it concerns."),
    _required("detail", VARCHAR, "What happened, one line."),
    _optional("hint", VARCHAR, "What to do about it, one line; NULL if there is nothing to do."),
    _required("makes_partial", BOOLEAN, "Whether the run is partial because of it."),
    schema="core",
    comment="Warnings of runs, one row each, in addition to the outcomes of partitions.",
)

ops_checkpoints = Table(
    "checkpoints",
    METADATA,
    _optional("seq", BIGINT, "Order of landing."),
    *_partition(),
    _required("run_kind", VARCHAR, "sync or backfill: each has separate checkpoints."),
    _required("scan_id", VARCHAR, "The scan."),
    _required("run_id", VARCHAR, "The last run that took part in it."),
    _optional("cursor", VARCHAR, "Cursor of the page to request next, unchanged."),
    _optional("pages", BIGINT, "Pages of the scan landed so far."),
    _optional("items", BIGINT, "Records of the scan landed so far."),
    _required("state", VARCHAR, "scanning, complete, recent or abandoned."),
    _required("started_at", INSTANT, "When the scan began."),
    _required("updated_at", INSTANT, "When its last page was received."),
    _optional("began_seq", BIGINT, "The landing of its first page."),
    _optional(
        "repeated_pages",
        INTEGER,
        "Pages with only items seen before, since the last page with a new item; empty pages are skipped.",
    ),
    _optional("empty_pages", INTEGER, "Pages without items since the last page with a new item."),
    _optional(
        "known_seq", BIGINT, "The scan may stop at posts known when this landing closed a scan; NULL for a full scan."
    ),
    _optional(
        "known_run",
        INTEGER,
        "Consecutive posts, up to the last one, that are known and older than the lookback window.",
    ),
    _optional("read_to", INSTANT, "Publication time of the last post in order after the pins."),
    _optional(
        "order_broken_by", VARCHAR, "Id of the first post out of order; empty if it has no id; NULL if there is none."
    ),
    _full_share(),
    _optional("rejected", BIGINT, "Records of the scan landed so far that went to quarantine; NULL before 1.0."),
    schema="ops",
    comment="Progress of the last scan of each partition and run kind, as far as merged; one row each.",
)

ops_seen = Table(
    "seen",
    METADATA,
    _required("scan_id", VARCHAR, "The scan, not complete yet."),
    *_item(),
    schema="ops",
    comment="Items that unfinished scans have seen in merged pages; media_id is empty for rejected records, and so is"
    " surface if the account's token had expired when a page was received.",
)

ops_missing = Table(
    "missing",
    METADATA,
    *_item(),
    _optional(
        "missing_since",
        INSTANT,
        "When the scan ended that first missed it and could decide; NULL if none has, but scans that rejected a record,"
        " or of an account whose token had expired.",
    ),
    _required("last_seen_at", INSTANT, "When a scan last saw it."),
    schema="ops",
    comment="Items that a closed scan missed, and whose removal another one must confirm.",
)

ops_missing_accounts = Table(
    "missing_accounts",
    METADATA,
    _account_id(),
    _required("missing_since", INSTANT, "When the scan of the catalogue ended that first missed it."),
    schema="ops",
    comment="Accounts that a complete catalogue missed, and whose removal another one must confirm.",
)

ops_forgotten = Table(
    "forgotten",
    METADATA,
    _required("mark", VARCHAR, "Hash of the account's id; the id itself is stored nowhere."),
    _required("salt", VARCHAR, "The salt of the hash, the same in all rows."),
    _required("forgotten_at", INSTANT, "When the account was erased."),
    schema="ops",
    comment="Accounts that `gramhouse forget` erased, and that syncs do not import, one row each.",
)

ops_warehouse = Table(
    "warehouse",
    METADATA,
    _required("warehouse_id", VARCHAR, "The warehouse's id: the name of its folder in the raw store."),
    _required("raw_parts", BIGINT, "The number of the last part of the raw store; 0 before any."),
    _optional("session", VARCHAR, "The process that writes, or wrote last; its segments have the same id."),
    _required("merged_seq", BIGINT, "The landing up to which everything is merged."),
    _required("merged_ahead", ARRAY(BIGINT), "Later landings that are merged already."),
    schema="ops",
    comment="The warehouse itself: one row.",
)

ops_raw_parts = Table(
    "raw_parts",
    METADATA,
    _required("number", BIGINT, "The part's number, which is in its file's name."),
    _required("rows", BIGINT, "Its rows."),
    _required("bytes", BIGINT, "Size of its file."),
    _required("first_landed", BIGINT, "Its lowest landing number."),
    _required("last_landed", BIGINT, "Its highest landing number."),
    _required("oldest_seen_at", INSTANT, "When the first of its rows was received."),
    _optional("retired_at", INSTANT, "When its rows were written to another part or deleted; NULL if it is in use."),
    _optional("unlisted_at", INSTANT, "When the first snapshot that does not list it was published; NULL before."),
    _optional("checksum", VARCHAR, "XXH3 hash (128 bits) of its file, hexadecimal; NULL if 0.2.0 wrote it."),
    schema="ops",
    comment="Parts of the raw store: those in use, and retired ones that older snapshots may list.",
)

ops_service = Table(
    "service",
    METADATA,
    _required("base_url", VARCHAR, "Address of the API, without /api/v1."),
    schema="ops",
    comment="The API that this warehouse belongs to: one row, or none before the first merge.",
)

ops_cooldowns = Table(
    "cooldowns",
    METADATA,
    _required("scope", VARCHAR, "The rate-limit scope that was limited."),
    _required("resume_after", INSTANT, "No request may be sent before this."),
    _optional("asked_at", INSTANT, "When the API requested the wait."),
    schema="ops",
    comment="Cooldowns, kept across restarts.",
)

ops_mapping = Table(
    "mapping",
    METADATA,
    _required("mapping", JSON, "The mapping by which all rows of media were read."),
    schema="ops",
    comment="How media items are read: one row.",
)

ops_hide_salt = Table(
    "hide_salt",
    METADATA,
    _required("salt", VARCHAR, "The salt of hashes in snapshots (GRAMHOUSE_HIDE)."),
    schema="ops",
    comment="The salt of hashed columns: one row, or none if no column was ever hashed.",
)

ITEM_TABLES = tuple(table.name for table in METADATA.tables.values() if table.info.get("has_items"))
"""The tables of feeds' items; each has one with earlier versions (`_superseded`) and one with counts (`_metrics`)."""

"""The writer's file: schema `core` has the merged data, schema `ops` the state that a run needs to continue.

Tables are sorted by account because most queries of media are about one account.
"""

from models.tables.columns import (
    FULL_SHARE,
    account,
    account_id,
    account_life,
    child,
    completed_scan,
    field,
    instant,
    media_child,
    media_content,
    media_id,
    metric,
    outcome,
    overflow,
    partition,
    quarantined,
    raw_landed,
    removal,
    run,
    run_counts,
    run_warning,
    share,
    small,
    status,
    status_period,
    surface,
    text,
    version,
    whole,
)
from models.tables.table import Column, Table, by_full_name

core_accounts = Table(
    "accounts",
    (
        *account(),
        instant("status_since", "When a sync first saw the current status.", nullable=False),
        *account_life(),
        text("scan_id", "The scan of the catalogue that last listed it.", nullable=False),
        whole("seen_seq", "The landing that last listed it."),
        text("listed_as", "The id as the API last wrote it, for requests; NULL if it equals account_id."),
        text("unknown_status", "The status it was last listed with, if gramhouse does not know it; otherwise NULL."),
    ),
    schema="core",
    comment="Accounts, one row each.",
)

core_status_history = Table(
    "account_status_history",
    (
        account_id(),
        status(),
        *status_period(),
    ),
    schema="core",
    comment="Every status an account has had, one row per period.",
)

core_media = Table(
    "media",
    (
        account_id(),
        surface(),
        media_id(),
        *media_content(),
        overflow(),
        Column(
            "payload_hash",
            "BLOB",
            "Hash of the received payload (XXH3-128): an item with an equal one is not decoded.",
        ),
        raw_landed(),
        instant("first_seen_at", "When a sync first saw it.", nullable=False),
        instant("written_at", "When the page that last changed this row was received.", nullable=False),
        whole(
            "written_seq",
            "The landing that last changed this row; NULL if it is older than all landings still referred to.",
        ),
        instant("changed_at", "When its content or a count last changed.", nullable=False),
        instant("content_changed_at", "When its content, without counts, last changed.", nullable=False),
        *removal(),
    ),
    schema="core",
    sorted_by=("account_id", "surface", "published_at DESC", "media_id"),
    comment="Media items as last seen, one row each. Rows that did not change are not rewritten.",
)

core_superseded = Table(
    "media_superseded",
    (
        account_id(),
        surface(),
        media_id(),
        *version(),
        overflow(),
        raw_landed(),
    ),
    schema="core",
    sorted_by=("account_id", "surface", "media_id", "valid_from"),
    comment="Earlier versions of the content of items; the current one is in media.",
)

core_metrics = Table(
    "media_metrics",
    (
        account_id(),
        surface(),
        media_id(),
        *metric(),
    ),
    schema="core",
    sorted_by=("account_id", "surface", "media_id", "metric", "observed_at"),
    comment="Counts of media items over time, one row for each change of a count.",
)

core_children = Table(
    "media_children",
    (
        *child(),
        *media_child(),
    ),
    schema="core",
    sorted_by=("account_id", "surface", "media_id", "position"),
    comment="Children of media items (such as the pictures of a carousel), one row each.",
)

core_completed_scans = Table(
    "completed_scans",
    (
        *partition(),
        text("scan_id", "The last complete scan that was merged.", nullable=False),
        instant("complete_at", "When the last full scan received its last page.", nullable=False),
        whole("seq", "The landing of the last page of the last closed scan, full or recent."),
        *completed_scan(),
        small("order_proofs", "Consecutive full scans that must still find posts in order before item_order is set."),
        share("full_share", FULL_SHARE),
    ),
    schema="core",
    comment="The last full scan of each partition, and the last recent scan after it; one row per partition.",
)

core_quarantine = Table(
    "quarantine",
    (
        *quarantined(),
        whole("digest", "Digest of the content by which equal records are recognized; NULL if not computed yet."),
    ),
    schema="core",
    comment="Records that could not become rows, one row each, with the response that first contained them.",
)

core_fields = Table(
    "fields",
    (
        *field(),
        whole("ordinal", "Order in which its resource's fields were found, from 0; NULL if the order does not matter."),
        text("name", "The name for its column, if it needs one."),
        text("child_table", "The name for its child table, if it needs one."),
        text("json_types", "JSON object: each JSON type found there, and when it was first found."),
    ),
    schema="core",
    comment="Fields received that the API's contract does not specify.",
)

core_runs = Table(
    "runs",
    (
        *run(),
        instant("published_at", "When its snapshot was published; NULL before."),
    ),
    schema="core",
    comment="Runs, one row each.",
)

core_run_counts = Table(
    "run_counts",
    (
        text("run_id", "The run that landed the pages; empty for runs no longer listed.", nullable=False),
        *run_counts(),
    ),
    schema="core",
    comment="Changes made by each run, updated by every merge in its transaction.",
)

core_outcomes = Table(
    "run_outcomes",
    outcome(),
    schema="core",
    comment="The outcomes of partitions in runs, one row each.",
)

core_warnings = Table(
    "run_warnings",
    run_warning(),
    schema="core",
    comment="Warnings of runs, one row each, in addition to the outcomes of partitions.",
)

ops_checkpoints = Table(
    "checkpoints",
    (
        whole("seq", "Order of landing."),
        *partition(),
        text("run_kind", "sync or backfill: each has separate checkpoints.", nullable=False),
        text("scan_id", "The scan.", nullable=False),
        text("run_id", "The last run that took part in it.", nullable=False),
        text("cursor", "Cursor of the page to request next, unchanged."),
        whole("pages", "Pages of the scan landed so far."),
        whole("items", "Records of the scan landed so far."),
        text("state", "scanning, complete, recent or abandoned.", nullable=False),
        instant("started_at", "When the scan began.", nullable=False),
        instant("updated_at", "When its last page was received.", nullable=False),
        whole("began_seq", "The landing of its first page."),
        small(
            "repeated_pages",
            "Pages with only items seen before, since the last page with a new item; empty pages are skipped.",
        ),
        small("empty_pages", "Pages without items since the last page with a new item."),
        whole("known_seq", "The scan may stop at posts known when this landing closed a scan; NULL for a full scan."),
        small(
            "known_run",
            "Consecutive posts, up to the last one, that are known and older than the lookback window.",
        ),
        instant("read_to", "Publication time of the last post in order after the pins."),
        text("order_broken_by", "Id of the first post out of order; empty if it has no id; NULL if there is none."),
        share("full_share", FULL_SHARE),
        whole("rejected", "Records of the scan landed so far that went to quarantine; NULL before 0.3."),
    ),
    schema="ops",
    comment="Progress of the last scan of each partition and run kind, as far as merged; one row each.",
)

ops_seen = Table(
    "seen",
    (
        text("scan_id", "The scan, not complete yet.", nullable=False),
        account_id(),
        surface(),
        media_id(),
    ),
    schema="ops",
    comment="Items that unfinished scans have seen in merged pages; media_id is empty for rejected records.",
)

ops_missing = Table(
    "missing",
    (
        account_id(),
        surface(),
        media_id(),
        instant(
            "missing_since", "When the scan ended that first missed it without a rejected record; NULL if none has."
        ),
        instant("last_seen_at", "When a scan last saw it.", nullable=False),
    ),
    schema="ops",
    comment="Items that a closed scan missed, and whose removal another one must confirm.",
)

ops_missing_accounts = Table(
    "missing_accounts",
    (
        account_id(),
        instant("missing_since", "When the scan of the catalogue ended that first missed it.", nullable=False),
    ),
    schema="ops",
    comment="Accounts that a complete catalogue missed, and whose removal another one must confirm.",
)

ops_warehouse = Table(
    "warehouse",
    (
        text("warehouse_id", "The warehouse's id: the name of its folder in the raw store.", nullable=False),
        whole("raw_parts", "The number of the last part of the raw store; 0 before any.", nullable=False),
        text("session", "The process that writes, or wrote last; its segments have the same id."),
        whole("merged_seq", "The landing up to which everything is merged.", nullable=False),
        Column("merged_ahead", "BIGINT[]", "Later landings that are merged already.", nullable=False),
    ),
    schema="ops",
    comment="The warehouse itself: one row.",
)

ops_raw_parts = Table(
    "raw_parts",
    (
        whole("number", "The part's number, which is in its file's name.", nullable=False),
        whole("rows", "Its rows.", nullable=False),
        whole("bytes", "Size of its file.", nullable=False),
        whole("first_landed", "Its lowest landing number.", nullable=False),
        whole("last_landed", "Its highest landing number.", nullable=False),
        instant("oldest_seen_at", "When the first of its rows was received.", nullable=False),
        instant("retired_at", "When its rows were written to another part or deleted; NULL if it is in use."),
        instant("unlisted_at", "When the first snapshot that does not list it was published; NULL before."),
        text("checksum", "XXH3 hash (128 bits) of its file, hexadecimal; NULL if 0.2.0 wrote it."),
    ),
    schema="ops",
    comment="Parts of the raw store: those in use, and retired ones that older snapshots may list.",
)

ops_service = Table(
    "service",
    (text("base_url", "Address of the API, without /api/v1.", nullable=False),),
    schema="ops",
    comment="The API that this warehouse belongs to: one row, or none before the first merge.",
)

ops_cooldowns = Table(
    "cooldowns",
    (
        text("scope", "The tenant scope that was limited.", nullable=False),
        instant("resume_after", "No request may be sent before this.", nullable=False),
        instant("asked_at", "When the API requested the wait."),
    ),
    schema="ops",
    comment="Cooldowns, kept across restarts.",
)

ops_mapping = Table(
    "mapping",
    (Column("mapping", "JSON", "The mapping by which all rows of media were read.", nullable=False),),
    schema="ops",
    comment="How media items are read: one row.",
)

WAREHOUSE = by_full_name(
    core_accounts,
    core_status_history,
    core_media,
    core_superseded,
    core_metrics,
    core_children,
    core_completed_scans,
    core_quarantine,
    core_fields,
    core_runs,
    core_run_counts,
    core_outcomes,
    core_warnings,
    ops_checkpoints,
    ops_seen,
    ops_missing,
    ops_missing_accounts,
    ops_warehouse,
    ops_raw_parts,
    ops_service,
    ops_cooldowns,
    ops_mapping,
)

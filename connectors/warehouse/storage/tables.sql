-- The warehouse's tables. Schema core has the merged data, of which the analysts' file has a copy; schema ops has the
-- state that a run needs to continue. Every later change of this file needs a numbered file in changes/.
--
-- The comment above a table describes it, the one after a column describes the column. A line `-- order: ` names the
-- order of a table's rows in a compacted file: by account, because most queries of media are about one account. No
-- table has a key or an index: in DuckDB they cost far more than they gain, so the merge ensures uniqueness.
--
-- zstd needs half of the space of the compression that DuckDB would choose for long, distinct texts, and less CPU time.

CREATE SCHEMA core;
CREATE SCHEMA ops;

-- Accounts, one row each.
CREATE TABLE core.accounts (
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    ig_username VARCHAR NOT NULL,  -- The account's name on the social network.
    public_id VARCHAR NOT NULL,  -- The account's short public id.
    status VARCHAR NOT NULL,  -- active, or token_expired: its access token must be renewed.
    status_since TIMESTAMPTZ NOT NULL,  -- When a sync first saw the current status.
    first_seen_at TIMESTAMPTZ NOT NULL,  -- When a sync first saw the account.
    last_seen_at TIMESTAMPTZ NOT NULL,  -- When a sync last saw the account.
    removed_at TIMESTAMPTZ,  -- When the first scan of the catalogue that did not list it ended; NULL if it is not
        -- marked as removed.
    scan_id VARCHAR NOT NULL,  -- The scan of the catalogue that last listed it.
    seen_seq BIGINT,  -- The landing that last listed it.
    listed_as VARCHAR,  -- The id as the API last wrote it, for requests; NULL if it equals account_id.
    unknown_status VARCHAR,  -- The status it was last listed with, if gramhouse does not know it; otherwise NULL.
    run_seq BIGINT  -- The run that last listed it, or marked it as removed, as seq in runs; NULL if unknown.
);

-- Every status an account has had, one row per period.
CREATE TABLE core.account_status_history (
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    status VARCHAR NOT NULL,  -- active or token_expired; removed while the account was marked as removed.
    valid_from TIMESTAMPTZ NOT NULL,  -- When a sync first saw this status.
    valid_to TIMESTAMPTZ,  -- When a sync first saw the next status; NULL for the current one.
    run_seq BIGINT  -- The run that first saw this status, or marked the account as removed, as seq in runs; NULL if
        -- unknown.
);

-- Media items as last seen, one row each. Rows that did not change are not rewritten.
-- order: account_id, surface, published_at DESC, media_id
CREATE TABLE core.media (
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    surface VARCHAR NOT NULL,  -- Where the item was listed, such as posts or stories.
    media_id VARCHAR NOT NULL,  -- The item's id, always text.
    media_type VARCHAR,  -- Kind of media as the API names it, such as IMAGE, VIDEO, CAROUSEL_ALBUM.
    caption VARCHAR,  -- The caption as published.
    permalink VARCHAR USING COMPRESSION zstd,  -- URL of the item on the social network.
    media_url VARCHAR USING COMPRESSION zstd,  -- URL of the image or video as last received; a signature in it expires.
    published_at TIMESTAMPTZ,  -- When the item was published.
    like_count BIGINT,  -- Likes when last seen; NULL if the API sent none, for example because the account hides them.
    comments_count BIGINT,  -- Comments when last seen; NULL if the API sent none.
    overflow VARCHAR,  -- JSON object by path: values of fields that have no column; NULL if there are none.
    payload_hash BLOB,  -- Hash of the received payload (XXH3-128): an item with an equal one is not decoded.
    raw_landed BIGINT,  -- Landing number of its row in the raw store.
    first_seen_at TIMESTAMPTZ NOT NULL,  -- When a sync first saw it.
    written_at TIMESTAMPTZ NOT NULL,  -- When the page that last changed this row was received.
    written_seq BIGINT,  -- The landing that last changed this row; NULL if it is older than all landings still referred
        -- to.
    changed_at TIMESTAMPTZ NOT NULL,  -- When its content or a count last changed.
    content_changed_at TIMESTAMPTZ NOT NULL,  -- When its content, without counts, last changed.
    removed_at TIMESTAMPTZ,  -- When the first scan that did not list it ended; NULL if it is not marked as removed.
    removal VARCHAR,  -- removed, or expired (a story that was at least 24 hours old); NULL if removed_at is NULL.
    run_seq BIGINT,  -- The run that last changed this row, apart from media URLs, as seq in runs; NULL if unknown.
    first_run_seq BIGINT  -- The run that first saw it, as seq in runs; NULL if unknown.
);

-- Earlier versions of the content of media items; the current one is in media.
-- order: account_id, surface, media_id, valid_from
CREATE TABLE core.media_superseded (
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    surface VARCHAR NOT NULL,  -- Where the item was listed, such as posts or stories.
    media_id VARCHAR NOT NULL,  -- The item's id, always text.
    valid_from TIMESTAMPTZ NOT NULL,  -- When a sync first saw this version.
    valid_to TIMESTAMPTZ NOT NULL,  -- When a sync first saw the next version.
    media_type VARCHAR,  -- Kind of media as the API names it, such as IMAGE, VIDEO, CAROUSEL_ALBUM.
    caption VARCHAR,  -- The caption as published.
    permalink VARCHAR USING COMPRESSION zstd,  -- URL of the item on the social network.
    published_at TIMESTAMPTZ,  -- When the item was published.
    overflow VARCHAR,  -- JSON object by path: values of fields that have no column; NULL if there are none.
    raw_landed BIGINT,  -- Landing number of its row in the raw store.
    run_seq BIGINT  -- The run that first saw the next version, as seq in runs; NULL if unknown.
);

-- Counts of media items over time, one row for each change of a count.
-- order: account_id, surface, media_id, metric, observed_at
CREATE TABLE core.media_metrics (
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    surface VARCHAR NOT NULL,  -- Where the item was listed, such as posts or stories.
    media_id VARCHAR NOT NULL,  -- The item's id, always text.
    metric VARCHAR NOT NULL,  -- Name of the count: a column of media, such as like_count.
    value BIGINT,  -- The count from observed_at on; NULL if the API stopped sending it, or a mapped column has it.
    observed_at TIMESTAMPTZ NOT NULL,  -- When a sync first saw this value.
    run_seq BIGINT  -- The run that first saw this value, as seq in runs; NULL if unknown.
);

-- Children of media items (such as the pictures of a carousel), one row each.
-- order: account_id, surface, media_id, position
CREATE TABLE core.media_children (
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    surface VARCHAR NOT NULL,  -- Where the item was listed, such as posts or stories.
    media_id VARCHAR NOT NULL,  -- The item's id, always text.
    position INTEGER NOT NULL,  -- Position in the item's list, from 0.
    run_seq BIGINT,  -- The run that last wrote the children of this item, as seq in runs; NULL if unknown.
    child_id VARCHAR,  -- The child's id, always text.
    media_type VARCHAR,  -- Kind of media as the API names it.
    media_url VARCHAR USING COMPRESSION zstd  -- URL of the image or video as last received; a signature in it expires.
);

-- What other tables do not keep: names of accounts, and removals of items that were listed again.
-- order: resource, account_id, surface, media_id, changed_at
CREATE TABLE core.events (
    resource VARCHAR NOT NULL,  -- What it happened to: accounts, or the table of the item.
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    surface VARCHAR,  -- Where the item was listed; NULL for an account.
    media_id VARCHAR,  -- The item's id; NULL for an account.
    run_seq BIGINT,  -- The run in which it happened, as seq in runs; NULL if unknown.
    changed_at TIMESTAMPTZ NOT NULL,  -- When it happened; of a removal, when the first scan that missed the item ended.
    event VARCHAR NOT NULL,  -- removed or expired, and returned; or renamed.
    ig_username VARCHAR  -- Of an account that was renamed, the name before.
);

-- The last full scan of each partition, and the last recent scan after it; one row per partition.
CREATE TABLE core.completed_scans (
    resource VARCHAR NOT NULL,  -- What was scanned: accounts (the catalogue) or media.
    account_id VARCHAR NOT NULL,  -- The scanned account; empty for the catalogue.
    surface VARCHAR NOT NULL,  -- The feed, such as posts or stories; empty for the catalogue.
    scan_id VARCHAR NOT NULL,  -- The last complete scan that was merged.
    complete_at TIMESTAMPTZ NOT NULL,  -- When the last full scan received its last page.
    seq BIGINT,  -- The landing of the last page of the last closed scan, full or recent.
    removals_undecided_since TIMESTAMPTZ,  -- Time since which missing items are not marked as removed, because scans
        -- rejected records; NULL if there are none.
    recent_at TIMESTAMPTZ,  -- When a recent scan after complete_at last reached posts seen by a closed scan; NULL if
        -- none has.
    covered_from TIMESTAMPTZ,  -- Posts published after this are as of recent_at, older ones as of complete_at; NULL if
        -- no recent scan followed complete_at.
    pages BIGINT,  -- Pages of the last full scan.
    items BIGINT,  -- Records on those pages.
    item_order VARCHAR,  -- newest_first if full scans found the posts in this order, except for pinned ones; NULL
        -- otherwise.
    order_broken_by VARCHAR,  -- Id of the first post that was newer than the one before it, or had no valid time, in
        -- the last full scan; empty if it has no id; NULL if there was none.
    order_proofs INTEGER,  -- Consecutive full scans that must still find posts in order before item_order is set.
    full_share DOUBLE  -- The next full scan is due at complete_at + full_share * published.full_refresh_every. Between
        -- 0 and 1 at first, so that full scans of the accounts are spread; 1 after one that was due.
);

-- Records that could not become rows, one row each, with the response that first contained them.
CREATE TABLE core.quarantine (
    reason VARCHAR NOT NULL,  -- Why the record could not become a row.
    resource VARCHAR NOT NULL,  -- accounts or media.
    account_id VARCHAR NOT NULL,  -- The account whose page contained it; empty for the catalogue.
    surface VARCHAR NOT NULL,  -- The feed, such as posts or stories; empty for the catalogue.
    page INTEGER,  -- Page of the scan, from 1.
    position INTEGER,  -- Position in the page, from 0; NULL if the whole page was rejected.
    payload VARCHAR NOT NULL USING COMPRESSION zstd,  -- The record as the API sent it; in one that is not JSON, \xNN is
        -- a byte.
    run_id VARCHAR NOT NULL,  -- The run that first received it.
    correlation_id VARCHAR,  -- X-Correlation-ID of the response that first contained it.
    seen_at TIMESTAMPTZ NOT NULL,  -- When it was first received.
    last_seen_at TIMESTAMPTZ NOT NULL,  -- When it was last received.
    digest BIGINT  -- Digest of the content by which equal records are recognized; NULL if not computed yet.
);

-- Fields received that the API's contract does not specify.
CREATE TABLE core.fields (
    resource VARCHAR NOT NULL,  -- Where it was found: media, a child table such as media_children, account,
        -- account_page or media_page.
    path VARCHAR NOT NULL,  -- Path of the field; for media a JSON Pointer, as in raw_media.payload ->> path.
    column_name VARCHAR,  -- The column or child table that holds it; NULL if it has none.
    type VARCHAR,  -- The column's type; ROWS for a child table.
    first_seen_at TIMESTAMPTZ NOT NULL,  -- When the field was first received.
    last_type_change_at TIMESTAMPTZ,  -- When a value of a new type was last found there; NULL while all values have one
        -- type.
    items BIGINT,  -- Number of items, or children, that have it in this snapshot; NULL if it cannot be counted.
    ordinal BIGINT,  -- Order in which its resource's fields were found, from 0; NULL if the order does not matter.
    name VARCHAR,  -- The name for its column, if it needs one.
    child_table VARCHAR,  -- The name for its child table, if it needs one.
    json_types VARCHAR  -- JSON object: each JSON type found there, and when it was first found.
);

-- Runs, one row each.
CREATE TABLE core.runs (
    run_id VARCHAR NOT NULL,  -- The run's id.
    seq BIGINT,  -- Order in which runs began, from 1; it does not depend on the clock.
    kind VARCHAR NOT NULL,  -- sync or backfill; totals: not a run, but the sums of the runs no longer listed.
    selection VARCHAR,  -- What it was asked to scan; NULL for everything.
    reason VARCHAR,  -- The reason that was given for it.
    state VARCHAR NOT NULL,  -- running, complete, partial, failed or interrupted; totals in the row of kind totals.
    started_at TIMESTAMPTZ NOT NULL,  -- When it began; 1970 in the row of kind totals.
    ended_at TIMESTAMPTZ,  -- When it ended.
    resumes VARCHAR,  -- The interrupted run that it resumes.
    base_url VARCHAR,  -- Address of the API, without /api/v1.
    accept_removals BOOLEAN,  -- Whether it was started with --accept-removals.
    accounts BIGINT,  -- Accounts listed by the catalogue; for a backfill, accounts selected.
    accounts_missing BIGINT,  -- Accounts missing from the catalogue whose removal awaits confirmation.
    partitions BIGINT,  -- Number of partitions: the catalogue, and each account once for each surface.
    requests BIGINT,  -- Requests it sent, retries included; NULL while it runs, and if it was killed.
    error_code VARCHAR,  -- The error that stopped it, or else the main reason why it is not complete.
    detail VARCHAR,  -- Explanation, one line.
    version VARCHAR NOT NULL,  -- The version of gramhouse that ran it.
    published_at TIMESTAMPTZ  -- When its snapshot was published; NULL before.
);

-- Changes made by each run, updated by every merge in its transaction.
CREATE TABLE core.run_counts (
    run_id VARCHAR NOT NULL,  -- The run that landed the pages; empty for runs no longer listed.
    pages BIGINT,  -- Pages it landed that are merged.
    items BIGINT,  -- Records on those pages, accounts and media.
    accounts_removed BIGINT,  -- Accounts marked as removed by its scan of the catalogue.
    added BIGINT,  -- New media items.
    changed BIGINT,  -- Changes of media items, in content or counts; an item that changed twice counts twice.
    removed BIGINT,  -- Media items marked as removed by its scans.
    expired BIGINT,  -- Stories marked as expired by its scans.
    returned BIGINT,  -- Media items marked as removed or expired that were seen again.
    quarantined BIGINT  -- Records that went to quarantine.
);

-- The outcomes of partitions in runs, one row each.
CREATE TABLE core.run_outcomes (
    run_id VARCHAR NOT NULL,  -- The run.
    resource VARCHAR NOT NULL,  -- What was scanned: accounts (the catalogue) or media.
    account_id VARCHAR NOT NULL,  -- The scanned account; empty for the catalogue.
    surface VARCHAR NOT NULL,  -- The feed, such as posts or stories; empty for the catalogue.
    outcome VARCHAR NOT NULL,  -- complete, recent, skipped, deferred, denied, not_found or failed.
    pages BIGINT,  -- Pages of the partition that this run landed.
    items BIGINT,  -- Records of the partition that this run landed.
    error_code VARCHAR,  -- The API's error code, or gramhouse's own if it received none.
    http_status INTEGER,  -- HTTP status of the last response.
    correlation_id VARCHAR,  -- X-Correlation-ID of the last response, for the API's support.
    resume_after TIMESTAMPTZ,  -- No request is sent before this; NULL if there is nothing to wait for.
    detail VARCHAR,  -- Explanation, one line.
    started_at TIMESTAMPTZ NOT NULL,  -- When the run began this partition.
    ended_at TIMESTAMPTZ NOT NULL  -- When its outcome was known.
);

-- Warnings of runs, one row each, in addition to the outcomes of partitions.
CREATE TABLE core.run_warnings (
    run_id VARCHAR NOT NULL,  -- The run.
    code VARCHAR NOT NULL,  -- Kind of warning; a run has at most one of each kind.
    count BIGINT NOT NULL,  -- How many records, accounts or values it concerns.
    detail VARCHAR NOT NULL,  -- What happened, one line.
    hint VARCHAR,  -- What to do about it, one line; NULL if there is nothing to do.
    makes_partial BOOLEAN NOT NULL  -- Whether the run is partial because of it.
);

-- Scans of feeds that are not closed, as of the last publication, one row each: a copy of checkpoints of the state.
CREATE TABLE ops.open_scans (
    resource VARCHAR NOT NULL,  -- What is scanned: media.
    account_id VARCHAR NOT NULL,  -- The scanned account.
    surface VARCHAR NOT NULL,  -- The feed, such as posts or stories.
    scan_id VARCHAR NOT NULL,  -- The scan.
    run_id VARCHAR NOT NULL,  -- The last run that took part in it.
    state VARCHAR NOT NULL,  -- scanning or abandoned.
    began_seq BIGINT NOT NULL,  -- The landing of its first page.
    started_at TIMESTAMPTZ NOT NULL,  -- When the scan began.
    updated_at TIMESTAMPTZ NOT NULL,  -- When its last page was received.
    cursor VARCHAR,  -- Cursor of the page to request next, unchanged.
    pages BIGINT NOT NULL,  -- Pages of the scan landed so far.
    read_to TIMESTAMPTZ  -- Publication time of the last post in order after the pins.
);

-- Items that unfinished scans have seen in merged pages; media_id is empty for rejected records, and so is surface if
-- the account's token had expired when a page was received.
CREATE TABLE ops.seen (
    scan_id VARCHAR NOT NULL,  -- The scan, not complete yet.
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    surface VARCHAR NOT NULL,  -- Where the item was listed, such as posts or stories.
    media_id VARCHAR NOT NULL  -- The item's id, always text.
);

-- Items that a closed scan missed, and whose removal another one must confirm.
CREATE TABLE ops.missing (
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    surface VARCHAR NOT NULL,  -- Where the item was listed, such as posts or stories.
    media_id VARCHAR NOT NULL,  -- The item's id, always text.
    missing_since TIMESTAMPTZ,  -- When the scan ended that first missed it and could decide; NULL if none has, but
        -- scans that rejected a record, or of an account whose token had expired.
    last_seen_at TIMESTAMPTZ NOT NULL  -- When a scan last saw it.
);

-- Accounts that a complete catalogue missed, and whose removal another one must confirm.
CREATE TABLE ops.missing_accounts (
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    missing_since TIMESTAMPTZ NOT NULL  -- When the scan of the catalogue ended that first missed it.
);

-- The warehouse itself: one row.
CREATE TABLE ops.warehouse (
    warehouse_id VARCHAR NOT NULL,  -- The warehouse's id: the name of its folder in the raw store.
    raw_parts BIGINT NOT NULL,  -- The number of the last part of the raw store; 0 before any.
    token VARCHAR NOT NULL,  -- Random, new whenever it is opened for writing; the state has the same. Empty before that.
    token_before VARCHAR,  -- The token before, while the state may still have it; otherwise NULL.
    merged_seq BIGINT NOT NULL,  -- The landing up to which everything is merged.
    schema_number INTEGER NOT NULL  -- The number of the last change of the warehouse's tables.
);

-- Parts of the raw store: those in use, and retired ones that older snapshots may list.
CREATE TABLE ops.raw_parts (
    number BIGINT NOT NULL,  -- The part's number, which is in its file's name.
    rows BIGINT NOT NULL,  -- Its rows.
    bytes BIGINT NOT NULL,  -- Size of its file.
    first_landed BIGINT NOT NULL,  -- Its lowest landing number.
    last_landed BIGINT NOT NULL,  -- Its highest landing number.
    oldest_seen_at TIMESTAMPTZ NOT NULL,  -- When the first of its rows was received.
    retired_at TIMESTAMPTZ,  -- When its rows were written to another part or deleted; NULL if it is in use.
    unlisted_at TIMESTAMPTZ,  -- When the first snapshot that does not list it was published; NULL before.
    checksum VARCHAR NOT NULL  -- XXH3 hash (128 bits) of its file, hexadecimal.
);

-- How media items are read: one row.
CREATE TABLE ops.mapping (
    mapping JSON NOT NULL  -- The mapping by which all rows of media were read.
);

-- The salt of hashed columns: one row, or none if no column was ever hashed.
CREATE TABLE ops.hide_salt (
    salt VARCHAR NOT NULL  -- The salt of hashes in snapshots (GRAMHOUSE_HIDE).
);

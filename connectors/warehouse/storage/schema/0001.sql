-- The tables of version 2.0. None has a key or an index: in DuckDB they cost far more than they gain, so the merge keeps
-- rows unique. None has a column of type JSON: a log with ALTER ... TYPE JSON cannot be replayed after a kill.

CREATE SCHEMA core;

CREATE TABLE core.warehouse (  -- The warehouse itself: one row.
    schema_number INTEGER NOT NULL,  -- The last file of numbered SQL that was run.
    merged_seq BIGINT NOT NULL,  -- The landing up to which everything is merged.
    raw_seq BIGINT NOT NULL,  -- The last landing with rows in the raw store; 0 before any.
    id VARCHAR NOT NULL,  -- Random text that never changes, so that only this warehouse replaces its snapshots.
    token VARCHAR NOT NULL,  -- Random text of the last opening for writing, which the state has too.
    token_before VARCHAR,  -- That of the opening before, while the state may still have it; NULL otherwise.
    mapping VARCHAR,  -- The mapping with which items were read, as JSON; NULL before any.
    content_rule INTEGER  -- The number of the rule by which content hashes were computed; NULL before any.
);
INSERT INTO core.warehouse VALUES (0, 0, 0, replace(uuid()::VARCHAR, '-', ''), '', NULL, NULL, NULL);

CREATE TABLE core.accounts (  -- Accounts, one row each, as the API last listed them.
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    listed_as VARCHAR NOT NULL,  -- The account's id as the API writes it.
    ig_username VARCHAR NOT NULL,  -- The account's name on the social network.
    public_id VARCHAR NOT NULL,  -- The account's short public id.
    status VARCHAR NOT NULL,  -- active, or token_expired: its access token must be renewed; or what else the API sent.
    status_since TIMESTAMPTZ NOT NULL,  -- When a sync first saw the current status.
    first_seen_at TIMESTAMPTZ NOT NULL,  -- When a sync first saw the account.
    run_seq BIGINT,  -- The run that last listed it, or marked it as removed, as seq in runs.
    seen_seq BIGINT NOT NULL,  -- The landing that last listed it.
    present_seq BIGINT NOT NULL,  -- The landing that first listed it, or listed it again after its removal.
    last_seen_at TIMESTAMPTZ NOT NULL,  -- When a sync last saw the account.
    missed_at TIMESTAMPTZ,  -- When the first complete catalogue that missed it ended; NULL if the last one listed it.
    confirmed_by BIGINT,  -- The run whose catalogue confirmed that; its removal is decided when a run ends.
    removed_at TIMESTAMPTZ,  -- missed_at of its removal; NULL if it is not marked as removed.
    removal VARCHAR  -- removed; NULL if removed_at is NULL.
);

CREATE TABLE core.account_periods (  -- Every status and every name an account has had, one row per period.
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    attribute VARCHAR NOT NULL,  -- status or ig_username.
    value VARCHAR NOT NULL,  -- The status or the name; the status removed while the account was marked as removed.
    valid_from TIMESTAMPTZ NOT NULL,  -- When a sync first saw it.
    valid_to TIMESTAMPTZ,  -- When a sync first saw the next one; NULL for the current one.
    seq BIGINT NOT NULL,  -- The landing in which a sync first saw it.
    run_seq BIGINT  -- The run that first saw it, or marked the account as removed, as seq in runs.
);

CREATE TABLE core.media (  -- Media items as last seen, one row each. Columns of other fields follow.
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
    content_hash UBIGINT NOT NULL,  -- Hash of the content: without counts, addresses and what the mapping ignores.
    payload_hash UBIGINT NOT NULL,  -- Hash of the bytes as last received: an item with equal ones is not read again.
    raw_landed BIGINT NOT NULL,  -- The landing with its bytes in the raw store.
    raw_position INTEGER NOT NULL,  -- Position of its bytes on the page of that landing, from 0.
    first_seen_at TIMESTAMPTZ NOT NULL,  -- When a sync first saw it.
    first_run_seq BIGINT,  -- The run that first saw it, as seq in runs.
    changed_at TIMESTAMPTZ NOT NULL,  -- When its content or a count last changed.
    content_changed_at TIMESTAMPTZ NOT NULL,  -- When its content, without counts, last changed.
    run_seq BIGINT,  -- The run that last changed this row, apart from addresses and sightings, as seq in runs.
    seen_seq BIGINT NOT NULL,  -- The landing that last listed it.
    present_seq BIGINT NOT NULL,  -- The landing that first listed it, or listed it again after its removal.
    last_seen_at TIMESTAMPTZ NOT NULL,  -- When a scan last saw it.
    missed_at TIMESTAMPTZ,  -- When the first scan that covered it and missed it ended; NULL if the last one listed it.
    confirmed_by BIGINT,  -- The run whose scan confirmed that; its removal is decided when a run ends.
    removed_at TIMESTAMPTZ,  -- missed_at of its removal; NULL if it is not marked as removed.
    removal VARCHAR  -- removed, or expired (a story past its 24 hours); NULL if removed_at is NULL.
);

CREATE TABLE core.media_versions (  -- Earlier versions of the content of items; the current one is in media.
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    surface VARCHAR NOT NULL,  -- Where the item was listed, such as posts or stories.
    media_id VARCHAR NOT NULL,  -- The item's id, always text.
    valid_from TIMESTAMPTZ NOT NULL,  -- When a sync first saw this version.
    valid_to TIMESTAMPTZ NOT NULL,  -- When a sync first saw the next version.
    content VARCHAR NOT NULL USING COMPRESSION zstd,  -- JSON object: its content by mapped column, or path of a field.
    changed VARCHAR[] NOT NULL,  -- Mapped columns, and paths of fields, whose content differs in the next version.
    raw_landed BIGINT NOT NULL,  -- The landing with its bytes in the raw store.
    raw_position INTEGER NOT NULL,  -- Position of its bytes on the page of that landing, from 0.
    run_seq BIGINT  -- The run that first saw the next version, as seq in runs.
);

CREATE TABLE core.media_counts (  -- Counts of items over time, one row for each change of a count.
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    surface VARCHAR NOT NULL,  -- Where the item was listed, such as posts or stories.
    media_id VARCHAR NOT NULL,  -- The item's id, always text.
    metric VARCHAR NOT NULL,  -- Name of the count: a column of media, such as like_count.
    value BIGINT,  -- The count from observed_at on; NULL if the API stopped sending it.
    observed_at TIMESTAMPTZ NOT NULL,  -- When a sync first saw this value.
    run_seq BIGINT  -- The run that first saw this value, as seq in runs.
);

CREATE TABLE core.events (  -- Removals and returns of items, one row each.
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    surface VARCHAR NOT NULL,  -- Where the item was listed, such as posts or stories.
    media_id VARCHAR NOT NULL,  -- The item's id, always text.
    event VARCHAR NOT NULL,  -- removed, expired or returned.
    changed_at TIMESTAMPTZ NOT NULL,  -- When it happened; of a removal, when the first scan that missed the item ended.
    run_seq BIGINT  -- The run that found it, as seq in runs.
);

CREATE TABLE core.fields (  -- Fields received that the API's contract does not specify, one row each.
    resource VARCHAR NOT NULL,  -- Where it was found: media, account, account_page or media_page.
    path VARCHAR NOT NULL,  -- Path of the field, a JSON Pointer.
    column_name VARCHAR,  -- The column that holds it; NULL if it has none.
    column_type VARCHAR,  -- The type of the column; NULL if it has none.
    kinds VARCHAR[] NOT NULL,  -- The types its values had, as in models/mapping.py; long is an integer past 2^53.
    is_count BOOLEAN NOT NULL,  -- Whether a value of it was a count.
    ordinal BIGINT NOT NULL,  -- Order in which its resource's fields were found, from 0.
    first_seen_at TIMESTAMPTZ NOT NULL,  -- When the field was first received.
    last_type_change_at TIMESTAMPTZ  -- When a value last changed the column's type; NULL while all values had one.
);

CREATE TABLE core.quarantine (  -- Records that could not become rows, one row each.
    reason VARCHAR NOT NULL,  -- Why the record could not become a row.
    resource VARCHAR NOT NULL,  -- accounts or media.
    account_id VARCHAR NOT NULL,  -- The account whose page contained it; empty for the catalogue.
    surface VARCHAR NOT NULL,  -- The feed, such as posts or stories; empty for the catalogue.
    page INTEGER,  -- Page of the scan, from 1.
    position INTEGER,  -- Position on the page, from 0; NULL if the whole page was rejected.
    payload VARCHAR NOT NULL USING COMPRESSION zstd,  -- The record as the API sent it; in one that is not JSON, \xNN is
                                                      -- a byte.
    run_id VARCHAR NOT NULL,  -- The run that first received it.
    correlation_id VARCHAR,  -- X-Correlation-ID of the response that first contained it.
    seen_at TIMESTAMPTZ NOT NULL,  -- When it was first received.
    last_seen_at TIMESTAMPTZ NOT NULL,  -- When it was last received.
    digest UBIGINT NOT NULL  -- Hash of the content by which equal records are recognized.
);

CREATE TABLE core.closed_scans (  -- The last full scan of each partition, and the last recent scan after it.
    resource VARCHAR NOT NULL,  -- What was scanned: accounts (the catalogue) or media.
    account_id VARCHAR NOT NULL,  -- The scanned account; empty for the catalogue.
    surface VARCHAR NOT NULL,  -- The feed, such as posts or stories; empty for the catalogue.
    seq BIGINT NOT NULL,  -- The landing of the last page of the last closed scan, full or recent.
    began_seq BIGINT NOT NULL,  -- The landing of its first page.
    complete_at TIMESTAMPTZ NOT NULL,  -- When the last full scan received its last page.
    recent_at TIMESTAMPTZ,  -- When a recent scan after complete_at last reached posts seen by a closed scan.
    covered_from TIMESTAMPTZ,  -- Posts published after this are as of recent_at, older ones as of complete_at.
    pages BIGINT NOT NULL,  -- Pages of the last full scan.
    items BIGINT NOT NULL,  -- Records on those pages.
    order_proofs INTEGER NOT NULL,  -- Full scans that must still find posts in order, one after the other.
    item_order VARCHAR,  -- newest_first if full scans found the posts in this order, except for pinned ones.
    order_broken_by VARCHAR,  -- Id of the first post out of order in the last full scan; empty if it has no id.
    full_share DOUBLE NOT NULL,  -- The next full scan is due at complete_at + full_share * full_refresh_every.
    removals_undecided_since TIMESTAMPTZ  -- Since when missed items are not marked as removed, because scans rejected
                                          -- records, or listed items of one id that differ; NULL if none are.
);

CREATE TABLE core.scan_findings (  -- What is wrong with records of open scans and of the last closed ones.
    resource VARCHAR NOT NULL,  -- What was scanned: accounts (the catalogue) or media.
    account_id VARCHAR NOT NULL,  -- The scanned account; empty for the catalogue.
    surface VARCHAR NOT NULL,  -- The feed, such as posts or stories; empty for the catalogue.
    scan_id VARCHAR NOT NULL,  -- The scan.
    finding VARCHAR NOT NULL,  -- rejected: a record went to quarantine; same_id: items of one id differ in time or
                               -- permalink; with these the scan decides no removal. listed_twice: an account differs.
    record_id VARCHAR,  -- The id that several records have; NULL for a rejected record.
    seq BIGINT NOT NULL  -- The landing in which it was found.
);

CREATE TABLE core.runs (  -- Runs, one row each, as of the last publication.
    run_id VARCHAR NOT NULL,  -- The run's id.
    seq BIGINT NOT NULL,  -- Order in which runs began, from 1; it does not depend on the clock.
    kind VARCHAR NOT NULL,  -- sync or backfill.
    selection VARCHAR,  -- What it was asked to scan; NULL for everything.
    reason VARCHAR,  -- The reason that was given for it.
    state VARCHAR NOT NULL,  -- running, complete, partial, failed or interrupted.
    started_at TIMESTAMPTZ NOT NULL,  -- When it began.
    ended_at TIMESTAMPTZ,  -- When it ended.
    resumes VARCHAR,  -- The interrupted run that it resumes.
    base_url VARCHAR,  -- Address of the API, without /api/v1.
    accept_removals BOOLEAN,  -- Whether it was started with --accept-removals.
    accounts BIGINT,  -- Accounts listed by the catalogue; for a backfill, accounts selected.
    accounts_missing BIGINT,  -- Accounts missing from the catalogue whose removal awaits confirmation.
    partitions BIGINT,  -- Number of partitions: the catalogue, and each account once for each surface.
    requests BIGINT,  -- Requests it sent, retries included; NULL while it runs, or if it was killed.
    error_code VARCHAR,  -- The error that stopped it, or else the main reason why it is not complete.
    detail VARCHAR,  -- Explanation, one line.
    version VARCHAR NOT NULL,  -- The version of gramhouse that ran it.
    published_at TIMESTAMPTZ  -- When its snapshot was published; NULL before.
);

CREATE TABLE core.run_counts (  -- What the merges of each run's landings changed, one row per run.
    run_seq BIGINT NOT NULL,  -- The run, as seq in runs.
    run_id VARCHAR NOT NULL,  -- Its id.
    pages BIGINT NOT NULL,  -- Pages it landed that are merged.
    items BIGINT NOT NULL,  -- Records on those pages, accounts and media.
    added BIGINT NOT NULL,  -- New media items.
    changed BIGINT NOT NULL,  -- Changes of media items, in content or counts; an item that changed twice counts twice.
    returned BIGINT NOT NULL,  -- Media items marked as removed or expired that were seen again.
    missed BIGINT NOT NULL,  -- Media items that its scans were the first to miss.
    removed BIGINT NOT NULL,  -- Media items marked as removed.
    expired BIGINT NOT NULL,  -- Stories marked as expired.
    accounts_removed BIGINT NOT NULL,  -- Accounts marked as removed.
    quarantined BIGINT NOT NULL  -- Records that went to quarantine.
);

CREATE TABLE core.run_outcomes (  -- The outcomes of partitions in runs, one row each.
    run_seq BIGINT NOT NULL,  -- The run, as seq in runs.
    run_id VARCHAR NOT NULL,  -- Its id.
    resource VARCHAR NOT NULL,  -- What was scanned: accounts (the catalogue) or media.
    account_id VARCHAR NOT NULL,  -- The scanned account; empty for the catalogue.
    surface VARCHAR NOT NULL,  -- The feed, such as posts or stories; empty for the catalogue.
    outcome VARCHAR NOT NULL,  -- complete, recent, skipped, deferred, denied, not_found or failed.
    pages BIGINT NOT NULL,  -- Pages of the partition that this run landed.
    items BIGINT NOT NULL,  -- Records of the partition that this run landed.
    error_code VARCHAR,  -- The API's error code, or gramhouse's own if it received none.
    http_status INTEGER,  -- HTTP status of the last response.
    correlation_id VARCHAR,  -- X-Correlation-ID of the last response, for the API's support.
    resume_after TIMESTAMPTZ,  -- No request is sent before this; NULL if there is nothing to wait for.
    detail VARCHAR,  -- Explanation, one line.
    started_at TIMESTAMPTZ NOT NULL,  -- When the run began this partition.
    ended_at TIMESTAMPTZ NOT NULL  -- When its outcome was known.
);

CREATE TABLE core.open_checkpoints (  -- Scans of media that are not closed, one row each, as of the last publication.
    account_id VARCHAR NOT NULL,  -- The account's id, a UUID in lower case.
    surface VARCHAR NOT NULL,  -- The feed, such as posts or stories.
    scan_id VARCHAR NOT NULL,  -- The scan.
    started_at TIMESTAMPTZ NOT NULL,  -- When the scan began.
    cursor VARCHAR,  -- Cursor of the page that it would request next; NULL if the API refused it.
    pages BIGINT NOT NULL,  -- Pages it landed.
    read_to TIMESTAMPTZ,  -- Publication time of the last post that it received.
    known_from TIMESTAMPTZ,  -- Publication time of the newest item that a closed scan has seen; NULL if there is none.
    reason VARCHAR NOT NULL  -- Why it ended: an error code, or interrupted.
);

CREATE TABLE core.run_warnings (  -- Warnings of runs, one row each, as of the last publication.
    run_id VARCHAR NOT NULL,  -- The run.
    code VARCHAR NOT NULL,  -- Kind of warning; a run has at most one of each kind.
    count BIGINT NOT NULL,  -- How many records, accounts or values it concerns.
    detail VARCHAR NOT NULL,  -- What happened, one line.
    hint VARCHAR,  -- What to do about it, one line; NULL if there is nothing to do.
    makes_partial BOOLEAN NOT NULL  -- Whether the run is partial because of it.
);

CREATE TABLE core.published (  -- The last publication: one row, none before the first.
    snapshot_at TIMESTAMPTZ NOT NULL,  -- When the snapshot was published.
    version VARCHAR NOT NULL,  -- The version of gramhouse that published it.
    stale_after DOUBLE NOT NULL,  -- GRAMHOUSE_STALE_AFTER in seconds.
    warehouse_id VARCHAR NOT NULL,  -- Id of the warehouse.
    full_refresh_every DOUBLE NOT NULL,  -- GRAMHOUSE_FULL_REFRESH_EVERY in seconds.
    hidden VARCHAR,  -- GRAMHOUSE_HIDE; NULL if nothing is hidden.
    raw_folder VARCHAR NOT NULL,  -- The folder of the raw store.
    views VARCHAR NOT NULL  -- Hash of the statements that created the views of schema main.
);

-- Properties of this snapshot: one row.
-- key: snapshot_at
SELECT
    snapshot_at,  -- When this snapshot was published, UTC.
    version,  -- The version of gramhouse that published it.
    stale_after,  -- GRAMHOUSE_STALE_AFTER in seconds: media not scanned for longer are stale.
    warehouse_id,  -- Id of the warehouse that published it; the same in all of its snapshots.
    full_refresh_every,  -- GRAMHOUSE_FULL_REFRESH_EVERY in seconds: the interval of full scans in incremental syncs.
    hidden  -- GRAMHOUSE_HIDE: the columns that this snapshot hides or hashes; NULL if it hides none.
FROM core.published

-- Runs, one row each; and a row of kind totals for runs no longer listed, so that sums include all runs.
-- key: run_id
SELECT
    r.run_id,  -- The run's id.
    r.seq,  -- Order in which runs began, from 1; it does not depend on the clock.
    r.kind,  -- sync or backfill; totals: not a run, but the sums of the runs no longer listed.
    r.selection,  -- What it was asked to scan; NULL for everything.
    r.reason,  -- The reason that was given for it.
    r.state,  -- running, complete, partial, failed or interrupted; totals in the row of kind totals.
    r.started_at,  -- When it began; 1970 in the row of kind totals.
    r.ended_at,  -- When it ended.
    r.resumes,  -- The interrupted run that it resumes.
    r.base_url,  -- Address of the API, without /api/v1.
    r.accept_removals,  -- Whether it was started with --accept-removals.
    r.accounts,  -- Accounts listed by the catalogue; for a backfill, accounts selected.
    r.accounts_missing,  -- Accounts missing from the catalogue whose removal awaits confirmation.
    r.partitions,  -- Number of partitions: the catalogue, and each account once for each surface.
    r.requests,  -- Requests it sent, retries included; NULL while it runs, and if it was killed.
    if(c.run_id IS NULL, 0, c.pages) AS pages,  -- Pages it landed that are merged.
    if(c.run_id IS NULL, 0, c.items) AS items,  -- Records on those pages, accounts and media.
    if(c.run_id IS NULL, 0, c.accounts_removed)
        AS accounts_removed,  -- Accounts marked as removed by its scan of the catalogue.
    if(c.run_id IS NULL, 0, c.added) AS added,  -- New media items.
    if(c.run_id IS NULL, 0, c.changed) AS changed,  -- Changes of media items and their children, in content
                                                       -- or counts; an item that changed twice counts twice.
    if(c.run_id IS NULL, 0, c.removed) AS removed,  -- Media items marked as removed by its scans.
    if(c.run_id IS NULL, 0, c.expired) AS expired,  -- Stories marked as expired by its scans.
    if(c.run_id IS NULL, 0, c.returned) AS returned,  -- Media items marked as removed or expired that were seen again;
                                                         -- those that have changed count in changed, too.
    if(c.run_id IS NULL, 0, c.quarantined) AS quarantined,  -- Records that went to quarantine.
    r.error_code,  -- The error that stopped it, or else the main reason why it is not complete.
    r.detail,  -- Explanation, one line.
    r.version  -- The version of gramhouse that ran it.
FROM core.runs AS r
LEFT JOIN core.run_counts AS c ON c.run_id = r.run_id
UNION ALL BY NAME
SELECT
    'totals' AS run_id,
    'totals' AS kind,
    'totals' AS state,
    TIMESTAMPTZ '1970-01-01 00:00:00+00' AS started_at,
    sum(COLUMNS(* EXCLUDE (run_seq, run_id, missed)))::BIGINT,
    'Counts of all runs no longer listed.' AS detail,
    '' AS version
FROM core.run_counts
ANTI JOIN core.runs USING (run_id)
HAVING count(*) > 0

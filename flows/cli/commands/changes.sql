-- What runs found. The statements after `listed` refer to this table, which has the changes of items that are shown.

-- name: runs
SELECT seq, run_id, kind, selection, state, started_at FROM runs
WHERE kind <> 'totals' AND {these}
ORDER BY seq DESC

-- name: unreported
-- The condition of the last run, and of unfinished runs before it.
seq > (SELECT coalesce(max(seq), 0) FROM reported WHERE seq < (SELECT max(seq) FROM runs))

-- name: counts_by_run
SELECT run_seq, change, count(*) AS items FROM changes
WHERE run_seq >= getvariable('first_run') AND run_seq IN getvariable('run_seqs') AND account_id IN (FROM chosen)
GROUP BY run_seq, change ORDER BY change

-- name: listed
CREATE TEMP TABLE listed AS
FROM changes
WHERE run_seq >= getvariable('first_run') AND run_seq IN getvariable('run_seqs') AND account_id IN (FROM chosen)
ORDER BY run_seq DESC, changed_at DESC, ig_username, surface, media_id, change
LIMIT getvariable('most') -- NULL: all.

-- name: changes
FROM listed ORDER BY run_seq DESC, changed_at DESC, ig_username, surface, media_id, change

-- name: account_changes
FROM account_changes
WHERE run_seq >= getvariable('first_run') AND run_seq IN getvariable('run_seqs') AND account_id IN (FROM chosen)
ORDER BY run_seq DESC, changed_at DESC, ig_username, change

-- name: versions
FROM media_history SEMI JOIN (FROM listed WHERE change = 'changed') USING (account_id, surface, media_id)
ORDER BY valid_from, valid_to NULLS LAST

-- name: counts
SELECT
    account_id, surface, media_id, run_seq, metric, arg_min_null(old, observed_at) AS old,
    arg_max_null(value, observed_at) AS new
FROM (
    SELECT *, lag(value) OVER (PARTITION BY account_id, surface, media_id, metric ORDER BY observed_at) AS old
    FROM media_metrics SEMI JOIN (FROM listed WHERE change <> 'new') USING (account_id, surface, media_id)
)
WHERE run_seq IN getvariable('run_seqs')
GROUP BY account_id, surface, media_id, run_seq, metric ORDER BY metric

-- name: run
SELECT
    run_id, kind, state, selection, reason, started_at, coalesce(accounts, 0) AS accounts,
    coalesce(accounts_missing, 0) AS accounts_missing, coalesce(requests, 0) AS requests
FROM core.runs WHERE run_id = ?

-- name: warnings
-- Only a sync looks for missing accounts and for a field that changes in most items: after the last run, a backfill must not
-- hide them, and a sync of stories not what one of everything found in posts.
SELECT DISTINCT ON (code, detail)
    code, CASE WHEN makes_partial THEN 'action' WHEN hint IS NULL THEN 'information' ELSE 'warning' END,
    detail, coalesce(hint, ''), count
FROM core.run_warnings
WHERE run_id = $run_id OR (
    $is_last AND code IN ('accounts_missing', 'items_changed_by_one_field')
    AND run_id = (
        SELECT max_by(run_id, seq) FROM core.runs
        WHERE kind = 'sync' AND state IN ('complete', 'partial') AND (selection IS NULL OR code = 'accounts_missing')
    )
)
ORDER BY makes_partial DESC, code, count DESC

-- name: groups
-- Detail and examples are from the same scans, so that a question to the service's support is about one scan.
SELECT
    o.outcome, coalesce(o.error_code, '') AS error_code, count(*) AS scans,
    count(DISTINCT o.account_id) AS accounts, max(o.resume_after) AS resume_after,
    coalesce(arg_min_null(o.detail, (o.account_id, o.surface)), '') AS detail,
    arg_min({
        'ig_username': coalesce(a.ig_username, o.account_id), 'surface': o.surface,
        'correlation_id': o.correlation_id, 'account_id': o.account_id
    }, (o.account_id, o.surface), 3) AS examples,
    coalesce(list(DISTINCT a.ig_username ORDER BY a.ig_username) FILTER (a.ig_username IS NOT NULL), []) AS usernames
FROM ({outcomes}) AS o LEFT JOIN core.accounts AS a USING (account_id)
WHERE o.outcome NOT IN ('complete', 'recent', 'skipped')
GROUP BY o.outcome, coalesce(o.error_code, ''), o.surface = '',
    coalesce(o.resume_after > $long::TIMESTAMPTZ, false)
ORDER BY scans DESC, o.outcome, error_code

-- name: missing_accounts
SELECT
    count(*) FILTER (is_missing) AS missing, count(*) AS known,
    count(*) FILTER (is_missing AND missed_at IS NULL) AS undecided,
    coalesce((SELECT items = 0 FROM core.closed_scans WHERE resource = 'accounts'), false) AS is_empty,
    coalesce(list(ig_username ORDER BY ig_username) FILTER (is_missing), []) AS names
FROM (
    SELECT a.ig_username, a.missed_at, a.seen_seq < w.began_seq AS is_missing
    FROM core.accounts AS a, core.closed_scans AS w
    WHERE w.resource = 'accounts' AND a.removed_at IS NULL
)

-- name: findings
-- What is wrong with records of the last closed scans: the finding, and the accounts.
SELECT f.finding, list_sort(list(DISTINCT coalesce(a.ig_username, f.account_id)))
FROM core.scan_findings AS f
JOIN core.closed_scans AS w USING (resource, account_id, surface)
LEFT JOIN core.accounts AS a ON a.account_id = if(f.finding = 'listed_twice', f.record_id, f.account_id)
WHERE f.finding <> 'rejected' AND f.seq BETWEEN w.began_seq AND w.seq
GROUP BY f.finding

-- name: names
-- The names of accounts.
SELECT ig_username FROM core.accounts WHERE list_contains($1, account_id) ORDER BY ig_username

-- name: changed_alone
-- The column or field that alone changed more than half of the items that each of these runs received, without the $2
-- accounts among them, and at least three.
SELECT v.changed[1]
FROM core.media_versions AS v
JOIN core.run_counts AS c USING (run_seq)
WHERE list_contains($1, v.run_seq) AND len(v.changed) = 1
GROUP BY v.changed[1], v.run_seq, c.items
HAVING count(*) >= 3 AND 2 * count(*) > c.items - $2
QUALIFY count(*) OVER (PARTITION BY v.changed[1]) = len($1)
LIMIT 1

-- name: held
-- The paths of fields, and their columns.
SELECT path, column_name FROM core.fields WHERE resource = 'media' AND column_name IS NOT NULL

-- name: counts
-- One row, of zeros for a run that merged nothing. Writes nothing.
SELECT
    coalesce(any_value(pages), 0) AS pages, coalesce(any_value(items), 0) AS items,
    coalesce(any_value(accounts_removed), 0) AS accounts_removed, {
    'added': coalesce(any_value(added), 0), 'changed': coalesce(any_value(changed), 0),
    'returned': coalesce(any_value(returned), 0), 'removed': coalesce(any_value(removed), 0),
    'expired': coalesce(any_value(expired), 0), 'quarantined': coalesce(any_value(quarantined), 0)
} AS media
FROM core.run_counts WHERE run_id = ?

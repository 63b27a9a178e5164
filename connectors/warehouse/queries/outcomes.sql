-- name: tally
-- The outcomes of a run by kind; those with one of these error codes were rejected although they reached their end.
SELECT outcome, count(*), count(*) FILTER (list_contains(?, error_code))
FROM core.run_outcomes WHERE run_id = ? GROUP BY outcome

-- name: groups
-- Detail and examples are from the same scans, so that a question to the service's support is about one scan.
SELECT
    o.outcome, coalesce(o.error_code, '') AS error_code, count(*) AS scans,
    count(DISTINCT o.account_id) AS accounts, max(o.resume_after) AS resume_after,
    arg_min_null(o.detail, (o.account_id, o.surface)) AS detail,
    arg_min({
        'ig_username': coalesce(a.ig_username, o.account_id), 'surface': o.surface,
        'correlation_id': o.correlation_id, 'account_id': o.account_id
    }, (o.account_id, o.surface), 3) AS examples,
    list(DISTINCT a.ig_username ORDER BY a.ig_username) FILTER (a.ig_username IS NOT NULL) AS usernames
FROM ({outcomes}) AS o LEFT JOIN core.accounts AS a USING (account_id)
WHERE o.outcome NOT IN ('complete', 'recent', 'skipped')
GROUP BY o.outcome, coalesce(o.error_code, ''), o.surface = '', {long}
ORDER BY scans DESC, o.outcome, error_code

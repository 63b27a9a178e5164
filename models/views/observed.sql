-- Whether the feeds of each account were scanned on each day (UTC), one row per account, surface and day, from the first
-- day of the account to that of the snapshot, without days on which it was not listed. Without an observed scan, a day with
-- no new posts and no likes gained says nothing.
-- key: account_id, surface, day
-- join: accounts by account_id
WITH told AS (
    SELECT
        o.account_id, o.surface, r.seq, o.outcome, o.error_code, o.pages, (o.ended_at AT TIME ZONE 'UTC')::DATE AS day
    FROM run_outcomes AS o JOIN runs AS r USING (run_id)
    WHERE list_contains({surfaces}, o.surface)
),
-- A successful outcome of older runs is left out if it equals the one before in the same month. A run whose catalogue is
-- not complete may not have listed the account.
synced AS (
    SELECT
        seq, (ended_at AT TIME ZONE 'UTC')::DATE AS day,
        unnest(coalesce(string_split(selection, ' and '), {surfaces})) AS surface
    FROM (FROM runs WHERE kind = 'sync' QUALIFY row_number() OVER (ORDER BY seq DESC) > 30)
    WHERE state IN ('complete', 'partial')
      AND run_id NOT IN (SELECT run_id FROM run_outcomes WHERE resource = 'accounts' AND outcome <> 'complete')
),
repeated AS (
    SELECT a.account_id, s.surface, s.seq, t.outcome, t.error_code, t.pages, s.day, t.day AS told_on, t.seq AS told_by
    FROM synced AS s
    CROSS JOIN accounts AS a
    ASOF JOIN told AS t ON t.account_id = a.account_id AND t.surface = s.surface AND t.seq <= s.seq
),
known AS (
    FROM told
    UNION ALL BY NAME
    SELECT * EXCLUDE (told_on, told_by) FROM repeated
    WHERE outcome IN ('complete', 'recent', 'skipped') AND told_by < seq
      AND date_trunc('month', told_on) = date_trunc('month', day)
),
days AS (
    SELECT
        a.account_id, a.ig_username, s.surface,
        unnest(generate_series(
            (a.first_seen_at AT TIME ZONE 'UTC')::DATE, (p.snapshot_at AT TIME ZONE 'UTC')::DATE, INTERVAL 1 DAY
        ))::DATE AS day
    FROM accounts AS a
    CROSS JOIN published AS p
    CROSS JOIN (SELECT DISTINCT surface FROM told) AS s
)
SELECT
    d.account_id,  -- The account's id.
    d.ig_username,  -- Its current name on the social network.
    d.surface,  -- The feed, such as posts or stories.
    d.day,  -- The day, in UTC.
    CASE
        WHEN bool_or(k.outcome IN ('complete', 'recent')) THEN 'complete'
        WHEN bool_or(k.pages > 0) THEN 'partly'
        ELSE 'no'
    END AS observed,  -- complete: a scan reached its end, or known posts; partly: scans landed pages and ended early; or no.
    CASE
        WHEN observed = 'complete' THEN NULL
        ELSE coalesce(arg_max(coalesce(k.error_code, k.outcome), k.seq), 'not_scanned')
    END AS reason  -- Why it was not complete: the error code or the outcome of the day's last run; not_scanned if no listed
                   -- run of that day scanned it; NULL if it was.
FROM days AS d
LEFT JOIN known AS k ON k.account_id = d.account_id AND k.surface = d.surface AND k.day = d.day
ANTI JOIN (
    SELECT account_id, (valid_from AT TIME ZONE 'UTC')::DATE AS from_day, (valid_to AT TIME ZONE 'UTC')::DATE AS to_day
    FROM account_status_history WHERE status = 'removed'
    UNION ALL
    SELECT account_id, (missing_since AT TIME ZONE 'UTC')::DATE, NULL FROM accounts WHERE missing_since IS NOT NULL
) AS r ON r.account_id = d.account_id AND r.from_day <= d.day AND coalesce(r.to_day > d.day, true)
GROUP BY d.account_id, d.ig_username, d.surface, d.day

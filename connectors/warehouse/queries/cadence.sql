-- name: histories
-- What says when feeds of listed accounts are due, and the catalogue, which has no surface: their last closed scans, the
-- items that were new then, and the last outcomes. Items without a time of publication were new when they were first
-- seen. Times are in UTC, without a zone: Python reads them in a tenth of the time.
WITH feed AS (SELECT unnest($surfaces::VARCHAR[]) AS surface, unnest($windows::DOUBLE[]) AS counted),
scanned AS (
    SELECT 'media' AS resource, account_id, surface, first_seen_at, status = 'token_expired' AS is_expired
    FROM core.accounts CROSS JOIN feed WHERE removed_at IS NULL
    UNION ALL
    -- A catalogue that was never listed is overdue since the first attempt: the first retry comes an hour after it.
    SELECT 'accounts', '', '', coalesce(min(ended_at), to_timestamp(0)), false
    FROM core.run_outcomes WHERE resource = 'accounts'
),
closed AS (
    SELECT resource, account_id, surface, coalesce(recent_at, complete_at) AS closed_at FROM core.closed_scans
),
fresh AS (
    SELECT 'media' AS resource, m.account_id, m.surface, count(*) AS items
    FROM core.media AS m
    JOIN closed AS c ON c.resource = 'media' AND c.account_id = m.account_id AND c.surface = m.surface
    JOIN feed AS f ON f.surface = m.surface AND f.counted > 0
    WHERE coalesce(m.published_at, m.first_seen_at) > c.closed_at - to_seconds(f.counted)
    GROUP BY ALL
),
outcome AS (
    SELECT
        resource, account_id, surface,
        arg_max(
            {'kind': outcome, 'error_code': error_code, 'ended_at': ended_at, 'resume_after': resume_after}, run_seq
        ) AS last
    FROM core.run_outcomes GROUP BY ALL
)
SELECT
    p.resource, p.account_id, p.surface, p.is_expired,
    p.first_seen_at AT TIME ZONE 'UTC', c.closed_at AT TIME ZONE 'UTC', coalesce(f.items, 0),
    o.last.kind, o.last.error_code, o.last.ended_at AT TIME ZONE 'UTC', o.last.resume_after AT TIME ZONE 'UTC'
FROM scanned AS p
LEFT JOIN closed AS c USING (resource, account_id, surface)
LEFT JOIN fresh AS f USING (resource, account_id, surface)
LEFT JOIN outcome AS o USING (resource, account_id, surface)

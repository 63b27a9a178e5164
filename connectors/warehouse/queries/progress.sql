-- name: seen_items
SELECT media_id FROM core.media WHERE account_id = ? AND surface = ? AND seen_seq >= ? LIMIT ?

-- name: listed_accounts
SELECT listed_as, status FROM core.accounts WHERE seen_seq >= ? ORDER BY account_id

-- name: statuses
SELECT account_id, status FROM core.accounts WHERE account_id IN (SELECT unnest(?::VARCHAR[]))

-- name: closed_scans
-- The last closed scans of some accounts.
SELECT
    account_id, surface, seq, complete_at, coalesce(recent_at, complete_at), pages,
    coalesce(item_order = 'newest_first', false), full_share
FROM core.closed_scans
WHERE resource = 'media' AND account_id IN (SELECT unnest(?::VARCHAR[]))

-- name: costs
-- What says how many requests the next scans of some accounts take. A cooldown is that of the
-- last outcome of any feed of the account.
WITH chosen AS (SELECT unnest($1::VARCHAR[]) AS account_id),
item AS (
    SELECT account_id, surface, count(*) AS items, count(*) FILTER (published_at >= $2) AS young
    FROM core.media SEMI JOIN chosen USING (account_id) WHERE removed_at IS NULL GROUP BY ALL
),
outcome AS (
    SELECT
        account_id, surface,
        arg_max(pages, run_seq) FILTER (outcome = 'recent') AS recent_pages,
        arg_max_null(if(outcome = 'deferred', resume_after, NULL), run_seq) AS resume_after
    FROM core.run_outcomes SEMI JOIN chosen USING (account_id) GROUP BY ALL
)
SELECT
    account_id, surface, coalesce(items, 0), coalesce(young, 0), coalesce(recent_pages, 0), coalesce(c.pages, 0),
    max(resume_after) OVER (PARTITION BY account_id)
FROM item FULL JOIN outcome USING (account_id, surface)
LEFT JOIN core.open_checkpoints AS c USING (account_id, surface)

-- name: known_items
-- The items that a closed scan has seen, the newest ones of each partition. Those that an open scan found are not among
-- them: no scan has read from them down to known items yet.
SELECT m.account_id, m.surface, arg_max(m.media_id, m.published_at, $5)
FROM core.media AS m
JOIN (
    SELECT unnest($1::VARCHAR[]) AS account_id, unnest($2::VARCHAR[]) AS surface, unnest($3::BIGINT[]) AS seq
) AS w ON w.account_id = m.account_id AND w.surface = m.surface
WHERE m.removed_at IS NULL AND m.present_seq <= w.seq AND m.published_at < $4
GROUP BY m.account_id, m.surface

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
    p.resource, p.account_id, p.surface, p.is_expired, coalesce(f.items, 0), o.last.kind, o.last.error_code,
    p.first_seen_at AT TIME ZONE 'UTC', c.closed_at AT TIME ZONE 'UTC', o.last.ended_at AT TIME ZONE 'UTC',
    o.last.resume_after AT TIME ZONE 'UTC'
FROM scanned AS p
LEFT JOIN closed AS c USING (resource, account_id, surface)
LEFT JOIN fresh AS f USING (resource, account_id, surface)
LEFT JOIN outcome AS o USING (resource, account_id, surface)

-- name: seen_items
-- Not what a scan of another kind of run has seen since.
SELECT media_id FROM core.media WHERE account_id = ? AND surface = ? AND seen_seq >= ? AND last_seen_at <= ? LIMIT ?

-- name: listed_accounts
SELECT listed_as, status FROM core.accounts WHERE seen_seq >= ? ORDER BY account_id

-- name: statuses
SELECT account_id, status FROM core.accounts WHERE account_id IN (SELECT unnest(?::VARCHAR[]))

-- name: closed_scans
-- The last closed scans of some accounts.
SELECT
    account_id, surface, seq, complete_at, pages, coalesce(item_order = 'newest_first', false), full_share
FROM core.closed_scans
WHERE resource = 'media' AND account_id IN (SELECT unnest(?::VARCHAR[]))

-- name: costs
-- What says how many requests the next scans of some accounts take.
WITH chosen AS (SELECT unnest($1::VARCHAR[]) AS account_id),
item AS (
    SELECT account_id, surface, count(*) AS items, count(*) FILTER (published_at >= $2) AS young
    FROM core.media SEMI JOIN chosen USING (account_id) WHERE removed_at IS NULL GROUP BY ALL
),
outcome AS (
    SELECT account_id, surface, arg_max(pages, run_seq) AS recent_pages
    FROM core.run_outcomes SEMI JOIN chosen USING (account_id) WHERE outcome = 'recent' GROUP BY ALL
)
SELECT account_id, surface, coalesce(items, 0), coalesce(young, 0), coalesce(recent_pages, 0)
FROM item FULL JOIN outcome USING (account_id, surface)

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

-- name: dues
-- When feeds of listed accounts are due, and the catalogue, which has no surface, and why. Times and spans are
-- microseconds in UTC: Python reads times with a zone in ten times the time.
-- The interval from a closed scan to the next one is the goal, or a day for a feed whose items expire and that had none
-- in a week, or if the goal is longer than a day so long that a feed is scanned about four times for each new item, but
-- at least a day. It depends only on what had been published when the last scan closed, in a window of four goals, at
-- least four weeks, so that an item more or less changes it by at most a half, and it does not change between two scans.
-- Items without a time of publication were new when they were first seen.
-- What failed is tried again after an hour, and then after as long as it has been overdue, at most six hours: longer, and
-- stories would be lost that were published during an outage. What the service asked to wait for is tried again after
-- that wait, at most a day, because a person can lift a longer one; and what it refused after a day.
WITH feed AS (
    SELECT
        unnest($surfaces::VARCHAR[]) AS surface, unnest($goals::BIGINT[]) AS goal, unnest($expires::BOOLEAN[]) AS expires,
        CASE WHEN expires THEN 7 * $day WHEN goal > $day THEN greatest(28 * $day, 4 * goal) ELSE 0 END AS counted
),
scanned AS (
    SELECT 'media' AS resource, account_id, feed.*, first_seen_at, status = 'token_expired' AND NOT $scan_expired AS is_left_out
    FROM core.accounts CROSS JOIN feed WHERE removed_at IS NULL
    UNION ALL
    -- A catalogue that was never listed is overdue since the first attempt: the first retry comes an hour after it.
    SELECT 'accounts', '', '', $day, false, 0, coalesce(min(ended_at), to_timestamp(0)), false
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
    WHERE coalesce(m.published_at, m.first_seen_at) > c.closed_at - to_microseconds(f.counted)
    GROUP BY ALL
),
outcome AS (
    SELECT
        resource, account_id, surface, arg_max(outcome, run_seq) AS outcome,
        arg_max_null(error_code, run_seq) AS error_code, epoch_us(arg_max(ended_at, run_seq)) AS tried_at,
        epoch_us(arg_max_null(resume_after, run_seq)) AS resume_after
    FROM core.run_outcomes GROUP BY ALL
),
by_interval AS (
    SELECT
        p.*, o.* EXCLUDE (resource, account_id, surface),
        p.counted // 4 // (coalesce(f.items, 0) + 1) AS of_an_item,
        CASE
            WHEN c.closed_at IS NULL THEN 'first'
            WHEN p.expires AND f.items IS NULL THEN 'quiet'
            WHEN p.goal > $day AND of_an_item < p.goal THEN 'rate'
            ELSE 'goal'
        END AS reason,
        CASE reason
            WHEN 'first' THEN epoch_us(p.first_seen_at)
            WHEN 'quiet' THEN epoch_us(c.closed_at) + greatest(p.goal, $day)
            WHEN 'rate' THEN epoch_us(c.closed_at) + greatest(of_an_item, $day)
            ELSE epoch_us(c.closed_at) + p.goal
        END AS due_at
    FROM scanned AS p
    LEFT JOIN closed AS c USING (resource, account_id, surface)
    LEFT JOIN fresh AS f USING (resource, account_id, surface)
    LEFT JOIN outcome AS o USING (resource, account_id, surface)
),
retried AS (
    SELECT
        *,
        CASE
            -- What a run left out because it may make no more requests has not failed.
            WHEN error_code = 'request_budget' THEN NULL
            WHEN outcome IN ('denied', 'not_found') THEN $day
            WHEN outcome = 'deferred' THEN least(coalesce(resume_after, tried_at) - tried_at, $day)
            WHEN outcome = 'failed' THEN least(tried_at - due_at, $day // 4)
        END AS wait
    FROM by_interval
)
SELECT
    resource, account_id, surface,
    CASE WHEN NOT is_left_out THEN make_timestamp(if(wait IS NULL, r.due_at, tried_at + greatest(wait, $day // 24))) END
        AS due_at,
    CASE WHEN is_left_out THEN 'token_expired' WHEN wait IS NOT NULL THEN 'retry' ELSE reason END AS due_reason
FROM retried AS r

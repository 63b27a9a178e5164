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

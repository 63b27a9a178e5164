-- The last closed scans of some accounts.
SELECT
    account_id, surface, seq, complete_at, coalesce(recent_at, complete_at), pages,
    coalesce(item_order = 'newest_first', false), full_share
FROM core.closed_scans
WHERE resource = 'media' AND account_id IN (SELECT unnest(?::VARCHAR[]))

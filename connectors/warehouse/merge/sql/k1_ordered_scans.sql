-- The last closed scans of active accounts whose posts were in order.
SELECT w.seq, w.complete_at, coalesce(w.recent_at, w.complete_at), w.pages, true, w.full_share
FROM core.closed_scans AS w
JOIN core.accounts AS a ON a.account_id = w.account_id AND a.removed_at IS NULL AND a.status = 'active'
WHERE w.item_order = 'newest_first'

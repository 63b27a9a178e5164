-- The last full scan of each partition, and the last recent scan after it; one row per partition.
-- key: resource, account_id, surface
-- join, not all rows: accounts by account_id
SELECT
    w.resource,  -- What was scanned: accounts (the catalogue) or media.
    w.account_id,  -- The scanned account; empty for the catalogue.
    w.surface,  -- The feed, such as posts or stories; empty for the catalogue.
    w.complete_at,  -- When the last full scan received its last page.
    w.removals_undecided_since,  -- Time since which missing items are not marked as removed, because scans rejected
                                 -- records; NULL if there are none.
    w.recent_at,  -- When a recent scan after complete_at last reached posts seen by a closed scan; NULL if none has.
    w.covered_from,  -- Posts published after this are as of recent_at, older ones as of complete_at; NULL if no recent
                     -- scan followed complete_at.
    w.pages,  -- Pages of the last full scan.
    w.items,  -- Records on those pages.
    w.item_order,  -- newest_first if full scans found the posts in this order, except for pinned ones; NULL otherwise.
    w.order_broken_by,  -- Id of the first post that was newer than the one before it, or had no valid time, in the last
                        -- full scan; empty if it has no id; NULL if there was none.
    w.full_share,  -- The next full scan is due at complete_at + full_share * published.full_refresh_every. Between 0
                   -- and 1 at first, so that full scans of the accounts are spread; 1 after one that was due.
    coalesce(m.items, 0)::BIGINT
        AS items_missing  -- Items that the last closed scans did not list, and another one must confirm as removed.
FROM core.closed_scans AS w
LEFT JOIN (
    SELECT 'media' AS resource, account_id, surface, count(*) AS items
    FROM core.media
    WHERE missed_at IS NOT NULL AND removed_at IS NULL
    GROUP BY account_id, surface
    UNION ALL
    SELECT 'accounts', '', '', count(*) FROM core.accounts WHERE missed_at IS NOT NULL AND removed_at IS NULL
) AS m ON m.resource = w.resource AND m.account_id = w.account_id AND m.surface = w.surface

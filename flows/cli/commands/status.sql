-- name: totals
SELECT
    (SELECT count(*) FROM accounts WHERE removed_at IS NULL) AS accounts,
    (SELECT count(*) FROM expired_accounts) AS expired,
    (SELECT count(*) FROM quarantine) AS quarantined,
    (SELECT max(snapshot_at) FROM published) AS published_at,
    (SELECT max(stale_after) FROM published) AS stale_after,
    (
        SELECT coalesce(histogram(m.surface), MAP {}) FROM core.media AS m JOIN accounts AS a USING (account_id)
        WHERE m.removed_at IS NULL AND a.removed_at IS NULL
    ) AS items

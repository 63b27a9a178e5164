-- Finds the closed scans of the batch. Writes no table.

-- Full scans, and recent ones, which cover only items published after `covered_from`. A scan is ignored if another one
-- of its partition was closed after it began: its first pages are older than the other scan's result, so it can neither
-- prove that an item is missing nor that it is present. Landing numbers decide the order, because a clock may have been
-- wrong. `has_rejected`: it has a rejected record of media, which may be any of the items that it seems to miss; if it
-- seems to miss any, it `is_undecided`. `token_expired`: the account's token had expired when one of its pages was
-- received. `before` is the partition's last closed scan.
CREATE OR REPLACE TEMP TABLE finished AS
WITH completed AS (FROM core.completed_scans SEMI JOIN last_checkpoints USING (resource, account_id, surface)),
rejecting AS (
    SELECT scan_id FROM sightings WHERE media_id IS NULL
    UNION
    SELECT scan_id FROM pages WHERE is_unreadable AND resource = '{resource}'
    UNION
    SELECT scan_id FROM ops.seen WHERE media_id = '' AND surface <> ''
),
expired AS (
    SELECT scan_id FROM pages WHERE token_expired
    UNION
    SELECT scan_id FROM ops.seen WHERE surface = ''
)
SELECT
    c.* RENAME (updated_at AS complete_at), c.state = 'recent' AS is_recent,
    if(c.state = 'recent', c.read_to, NULL) AS covered_from, c.scan_id IN (FROM rejecting) AS has_rejected,
    c.scan_id IN (FROM expired) AS token_expired, false AS is_undecided, w AS before
FROM last_checkpoints AS c
LEFT JOIN completed AS w USING (resource, account_id, surface)
WHERE (c.state = 'complete' OR (c.state = 'recent' AND w.complete_at IS NOT NULL))
  AND coalesce(w.seq <= c.began_seq, true);

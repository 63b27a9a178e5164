-- name: account_lookup
-- All values that the views look up by account, in one table: each further join would add its full cost to every query
-- on media.
WITH listed AS (
    SELECT account_id, any_value(ig_username) AS ig_username FROM core.accounts GROUP BY account_id
),
missing AS (
    SELECT account_id, min(missing_since) AS missing_since FROM ops.missing_accounts GROUP BY account_id
),
scanned AS (
    SELECT
        account_id,
        {closed}
    FROM core.completed_scans
    WHERE surface <> ''
    GROUP BY account_id
)
FROM listed FULL JOIN missing USING (account_id) FULL JOIN scanned USING (account_id)

-- name: open_gaps
-- Scans that stopped before they reached known posts, and began after the last closed scan of their partition. (That
-- scan has read what an older one left out.) The reason is from the last run that scanned the partition.
WITH open_scans AS (
    SELECT c.*, w.seq AS closed_seq
    FROM ops.open_scans AS c LEFT JOIN core.completed_scans AS w USING (resource, account_id, surface)
    WHERE coalesce(c.began_seq > w.seq, true)
    QUALIFY row_number() OVER (PARTITION BY account_id, surface ORDER BY c.began_seq DESC) = 1
),
last_outcomes AS (
    SELECT o.account_id, o.surface, arg_max(coalesce(o.error_code, 'interrupted'), r.seq) AS reason
    FROM core.run_outcomes AS o JOIN core.runs AS r USING (run_id)
    SEMI JOIN open_scans AS s ON s.run_id = o.run_id AND s.account_id = o.account_id AND s.surface = o.surface
    GROUP BY o.account_id, o.surface
)
SELECT
    s.account_id, s.surface, s.started_at AS since, s.cursor, s.pages, s.read_to AS read_down_to,
    (
        SELECT max(m.published_at) FROM ({items}) AS m
        WHERE m.account_id = s.account_id AND m.surface = s.surface AND coalesce(m.written_seq, 0) <= s.closed_seq
    ) AS known_from,
    coalesce(o.reason, 'interrupted') AS reason
FROM open_scans AS s LEFT JOIN last_outcomes AS o USING (account_id, surface)

-- name: missing_items
-- Items whose removal awaits confirmation.
SELECT account_id, surface, media_id, min(missing_since) AS missing_since, min(last_seen_at) AS last_seen_at
FROM ops.missing GROUP BY account_id, surface, media_id

-- name: published
SELECT
    {snapshot_at}::TIMESTAMPTZ AS snapshot_at, {version}::VARCHAR AS version, {stale_after}::DOUBLE AS stale_after,
    {warehouse_id}::VARCHAR AS warehouse_id, {full_refresh_every}::DOUBLE AS full_refresh_every,
    {hidden}::VARCHAR AS hidden

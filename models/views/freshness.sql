-- How fresh the posts and stories of each listed account are: their last scans, and the outcome of the last run. Use
-- is_stale to list what is stale, and max(age_seconds) for a monitor. Accounts with an expired token are never stale.
-- key: account_id, surface
-- join: accounts by account_id
WITH last_outcome AS (
    SELECT o.account_id, o.surface, o.outcome, o.error_code, o.resume_after, o.ended_at
    FROM run_outcomes AS o
    LEFT JOIN runs AS r USING (run_id)
    WHERE list_contains({surfaces}, o.surface)
    QUALIFY row_number() OVER (PARTITION BY o.account_id, o.surface ORDER BY r.seq DESC NULLS LAST, o.ended_at DESC) = 1
),
scanned AS (
    SELECT surface FROM completed_scans WHERE list_contains({surfaces}, surface)
    UNION
    SELECT surface FROM run_outcomes WHERE list_contains({surfaces}, surface)
)
SELECT
    a.account_id,  -- The account's id.
    a.ig_username,  -- Its name on the social network.
    s.surface,  -- The feed, such as posts or stories.
    w.complete_at,  -- When the last full scan received its last page; NULL if there was none.
    w.recent_at,  -- When a recent scan after complete_at last reached posts seen by a closed scan; NULL if none has.
    w.covered_from,  -- Posts published after this are as of recent_at, older ones as of complete_at; NULL: all
                     -- are as of complete_at.
    w.item_order,  -- newest_first if full scans proved it, so that recent scans may follow; otherwise NULL.
    CASE
        WHEN w.item_order IS NOT NULL THEN w.complete_at + to_seconds(p.full_refresh_every * w.full_share)
    END AS full_due_at,  -- When the next full scan of incremental syncs is due; NULL if each scan is full.
    g.since AS gap_since,  -- Since when a scan that ended early has left a gap (see gaps); NULL without one.
    l.outcome,  -- Its outcome in the last run that included it.
    l.error_code,  -- The error code of that outcome; NULL if there was none.
    l.resume_after,  -- The API asked not to be requested before this; NULL without a cooldown.
    l.ended_at AS last_tried_at,  -- When that outcome was known.
    d.due_at,  -- When `gramhouse sync --due` scans it again; NULL while the token is expired.
    d.due_reason,  -- Why then (see due_scans).
    date_diff(
        'microsecond', greatest(w.complete_at, w.recent_at), greatest(now(), w.complete_at, w.recent_at)
    ) / 1e6
        AS stale_for,  -- Seconds since the later of both scans, even with an expired token; NULL if there was none.
    CASE
        WHEN a.status <> 'token_expired' THEN coalesce(greatest(w.complete_at, w.recent_at), a.first_seen_at)
            + to_seconds(p.stale_after)
    END AS stale_at,  -- When published.stale_after has passed since the later scan, or else since the account was first
                      -- seen; NULL while the token is expired.
    CASE
        WHEN stale_at IS NOT NULL THEN greatest(epoch(now()) - epoch(stale_at) + p.stale_after, 0)::BIGINT
    END AS age_seconds,  -- Seconds since the later scan, or else since the account was first seen; NULL while the token
                         -- is expired.
    coalesce(stale_at < now(), false) AS is_stale,  -- Whether stale_at has passed, by the reader's clock.
    coalesce(w.items_missing, 0) AS items_missing,  -- Items that its last closed scans did not list, and another one
                                                    -- must confirm as removed.
    w.removals_undecided_since  -- Time since which missing items are not marked as removed, because scans rejected
                                -- records; NULL if there are none.
FROM accounts AS a
CROSS JOIN scanned AS s
CROSS JOIN published AS p
LEFT JOIN gaps AS g ON g.account_id = a.account_id AND g.surface = s.surface
LEFT JOIN last_outcome AS l ON l.account_id = a.account_id AND l.surface = s.surface
LEFT JOIN due_scans AS d ON d.account_id = a.account_id AND d.surface = s.surface
LEFT JOIN completed_scans AS w ON w.account_id = a.account_id AND w.surface = s.surface
WHERE a.removed_at IS NULL

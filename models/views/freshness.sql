-- How fresh each account's posts and stories are: when they were last walked to the end, what became of them
-- in the last run, and how long ago that complete walk was.
WITH last_outcome AS (
    SELECT o.account_id, o.surface, o.outcome, o.error_code, o.resume_after, o.ended_at
    FROM run_outcomes AS o
    WHERE o.resource = 'media'
    QUALIFY row_number() OVER (PARTITION BY o.account_id, o.surface ORDER BY o.ended_at DESC) = 1
)
SELECT
    a.account_id,  -- The account's id.
    a.ig_username,  -- Its name on the social network.
    l.surface,  -- posts or stories.
    w.complete_at,  -- When the last complete walk received its last page; NULL when there was none.
    l.outcome,  -- What became of it in the last run that owed it an outcome.
    l.error_code,  -- The error it met there; NULL when there was none.
    l.resume_after,  -- Not to be asked for again before this.
    l.ended_at AS last_tried_at,  -- When that outcome was known.
    now() - w.complete_at AS stale_for  -- How long ago the last complete walk was, by the clock of whoever asks.
FROM last_outcome AS l
JOIN accounts AS a USING (account_id)
LEFT JOIN walks AS w
    ON w.resource = 'media' AND w.account_id = l.account_id AND w.surface = l.surface
WHERE a.removed_at IS NULL

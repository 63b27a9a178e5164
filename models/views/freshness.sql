-- How fresh each account's posts and stories are: when they were last walked to the end, what became of them
-- in the last run, and how long ago that complete walk was.
WITH last_outcome AS (
    SELECT o.account_id, o.surface, o.outcome, o.error_code, o.resume_after, o.ended_at
    FROM run_outcomes AS o
    WHERE o.resource = 'media'
    QUALIFY row_number() OVER (PARTITION BY o.account_id, o.surface ORDER BY o.ended_at DESC) = 1
)
SELECT
    a.account_id,
    a.ig_username,
    l.surface,
    w.complete_at,
    l.outcome,
    l.error_code,
    l.resume_after,
    l.ended_at AS last_tried_at,
    now() - w.complete_at AS stale_for
FROM last_outcome AS l
JOIN accounts AS a USING (account_id)
LEFT JOIN walks AS w
    ON w.resource = 'media' AND w.account_id = l.account_id AND w.surface = l.surface
WHERE a.removed_at IS NULL

-- The queries of the page, in their order. The variables are those of Reader, and: since, the first midnight of the days;
-- is_whole, whether it shows all accounts and surfaces.

-- name: totals
SELECT
    (SELECT count(*) FROM accounts WHERE removed_at IS NULL AND account_id IN (FROM chosen)) AS accounts,
    (
        SELECT coalesce(histogram(surface), MAP {})
        FROM core.media SEMI JOIN (SELECT account_id FROM accounts WHERE removed_at IS NULL) USING (account_id)
        WHERE removed_at IS NULL AND surface IN getvariable('surfaces') AND account_id IN (FROM chosen)
    ) AS items

-- name: last_runs
-- As rows of a table and of charts. What runs found is that of the accounts and surfaces, unless these are all.
SELECT r.* REPLACE (
        if(getvariable('is_whole'), r.added, coalesce(c.added, 0)) AS added,
        if(getvariable('is_whole'), r.changed, coalesce(c.changed, 0)) AS changed,
        if(getvariable('is_whole'), r.returned, coalesce(c.returned, 0)) AS returned,
        if(getvariable('is_whole'), r.expired, coalesce(c.expired, 0)) AS expired,
        if(getvariable('is_whole'), r.removed, coalesce(c.removed, 0)) AS removed
    ),
    coalesce(o.outcomes, MAP {}) AS outcomes, concat_ws(' ', r.kind, r.selection) AS title,
    date_trunc('second', r.ended_at - r.started_at)::VARCHAR AS took,
    strftime(r.started_at AT TIME ZONE 'UTC', '%-d %b') AS label,
    concat(title, strftime(r.started_at AT TIME ZONE 'UTC', ', %Y-%m-%d %H:%M UTC: '), r.state) AS name
FROM (FROM runs WHERE kind <> 'totals' ORDER BY seq DESC LIMIT 30) AS r
LEFT JOIN (
    SELECT run_id, histogram(outcome) AS outcomes FROM run_outcomes
    WHERE resource = 'accounts' OR (account_id IN (FROM chosen) AND surface IN getvariable('surfaces'))
    GROUP BY run_id
) AS o USING (run_id)
LEFT JOIN (
    SELECT run_seq, count(*) FILTER (change = 'new') AS added,
        count(*) FILTER (change IN ('changed', 'counted')) AS changed, count(*) FILTER (change = 'returned') AS returned,
        count(*) FILTER (change = 'expired') AS expired, count(*) FILTER (change = 'removed') AS removed
    FROM changes
    WHERE NOT getvariable('is_whole') AND account_id IN (FROM chosen) AND surface IN getvariable('surfaces')
    GROUP BY run_seq
) AS c ON c.run_seq = r.seq
ORDER BY r.seq

-- name: unfinished
-- What is not fresh although its token is valid, or was not scanned to the end when it was last tried, with what the API's
-- support asks for.
SELECT f.ig_username AS account, f.surface,
    CASE WHEN f.is_overdue THEN 'stale' WHEN f.complete_at IS NULL THEN 'never scanned' ELSE 'fresh' END AS state,
    greatest(f.complete_at, f.recent_at) AS complete_at, o.outcome, o.error_code, o.correlation_id, f.resume_after,
    count(*) OVER () AS total
FROM fresh AS f LEFT JOIN last_outcomes AS o USING (account_id, surface)
WHERE (f.stale_at IS NOT NULL AND state <> 'fresh') OR o.outcome NOT IN ('complete', 'recent', 'skipped')
ORDER BY f.is_overdue DESC, f.complete_at NULLS FIRST, f.ig_username, f.surface LIMIT 20

-- name: engagement
CREATE TEMP TABLE engagement AS
FROM engagement_by_day WHERE account_id IN (FROM chosen)
  AND day BETWEEN (getvariable('since') AT TIME ZONE 'UTC')::DATE AND (getvariable('made_at') AT TIME ZONE 'UTC')::DATE

-- name: days
-- From the first run on. Posts of an account that left are not counted: one that is connected again has another id, and
-- each of them again. NULL is a gap: on that day less than half of the accounts with a valid token were observed, and
-- what the others gained would look like a bad day.
WITH listed AS (SELECT account_id FROM accounts WHERE removed_at IS NULL),
scanned AS (
    SELECT day, list(surface) AS surfaces
    FROM (
        SELECT day, surface FROM observed
        WHERE account_id IN (FROM chosen) AND day >= getvariable('since')::DATE AND reason IS DISTINCT FROM 'token_expired'
        GROUP BY day, surface HAVING avg((observed <> 'no')::INTEGER) >= 0.5
    )
    GROUP BY day
)
SELECT strftime(d.day, '%a %Y-%m-%d') AS name, strftime(d.day, '%-d %b') AS label,
    if('posts' IN r.surfaces, coalesce(e.likes, 0), NULL) AS likes,
    if('posts' IN r.surfaces, coalesce(e.comments, 0), NULL) AS comments,
    coalesce(e.posts, 0) AS posts,
    coalesce(COLUMNS(s.* EXCLUDE (day)), if('stories' IN r.surfaces, 0, NULL))
FROM (
    SELECT unnest(generate_series(
        greatest(
            getvariable('since'), date_trunc('day', (SELECT min(started_at) FROM runs WHERE kind <> 'totals'))
        ),
        getvariable('made_at'), INTERVAL 1 DAY
    ))::DATE AS day
) AS d
LEFT JOIN scanned AS r USING (day)
LEFT JOIN (
    SELECT day, sum(likes_gained)::BIGINT AS likes, sum(comments_gained)::BIGINT AS comments,
        sum(posts_published) FILTER (account_id IN (FROM listed))::BIGINT AS posts
    FROM engagement GROUP BY day
) AS e USING (day)
LEFT JOIN (
    SELECT day, sum(COLUMNS(['live', 'expired', 'unconfirmed', 'removed']))::BIGINT
    FROM stories_by_day WHERE account_id IN (FROM chosen) GROUP BY day
) AS s USING (day)
ORDER BY d.day

-- name: growth
-- The usual gap only of accounts with five posts: less is no habit. Silent is the condition of the view stale_accounts,
-- which depends on the reader's clock.
SELECT c.ig_username AS account, coalesce(e.likes, 0) AS likes, coalesce(e.comments, 0) AS comments, c.posts_per_week,
    c.last_post_at::DATE AS last_post, if(c.posts >= 5, c.median_days_between_posts, NULL) AS gap,
    coalesce(c.days_since_last_post > greatest(3 * gap, 7), false) AS is_silent, count(*) OVER () AS total
FROM posting_cadence AS c LEFT JOIN (
    SELECT account_id, sum(likes_gained)::BIGINT AS likes, sum(comments_gained)::BIGINT AS comments
    FROM engagement GROUP BY account_id
) AS e USING (account_id)
WHERE c.account_id IN (FROM chosen)
QUALIFY is_silent OR row_number() OVER (ORDER BY coalesce(e.likes, 0) DESC, c.posts_per_week DESC, account) <= 10
ORDER BY likes DESC, c.posts_per_week DESC, account

-- name: top
-- A median of few posts, or of few likes, says little. The latter, and the three posts per account, only if all accounts
-- are compared.
SELECT p.ig_username AS account, {'text': m.caption, 'address': m.permalink} AS post, p.relative_likes,
    p.like_count, p.published_at::DATE AS published
FROM (
    FROM post_performance
    WHERE account_id IN (FROM chosen) AND account_id IN (SELECT account_id FROM accounts WHERE removed_at IS NULL)
    QUALIFY count(*) OVER (PARTITION BY account_id) >= 5
) AS p
JOIN media AS m ON m.surface = 'posts' AND m.account_id = p.account_id AND m.media_id = p.media_id
WHERE m.removed_at IS NULL AND p.published_at BETWEEN getvariable('since') AND getvariable('made_at')
  AND (NOT getvariable('is_everything') OR p.median_likes >= 10)
QUALIFY NOT getvariable('is_everything')
    OR row_number() OVER (PARTITION BY p.account_id ORDER BY p.relative_likes DESC, p.media_id) <= 3
ORDER BY p.relative_likes DESC, p.account_id, p.media_id LIMIT 10

-- name: removed
-- Only media have a caption. Items of other tables are named by their id.
SELECT a.ig_username AS account, i.surface,
    {'text': if(m.media_id IS NULL, i.media_id, m.caption), 'address': m.permalink} AS post,
    i.published_at::DATE AS published, i.removed_at::DATE AS removed, m.like_count, count(*) OVER () AS total
FROM core.media AS i JOIN accounts AS a USING (account_id)
LEFT JOIN media AS m ON m.account_id = i.account_id AND m.surface = i.surface AND m.media_id = i.media_id
WHERE i.removal = 'removed' AND i.surface IN getvariable('surfaces') AND i.account_id IN (FROM chosen)
ORDER BY i.removed_at DESC, i.account_id, i.media_id, i.surface LIMIT 10

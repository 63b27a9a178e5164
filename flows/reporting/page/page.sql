-- The queries of the report. The variables are those of Reader, and: since (the first midnight of the time axes, UTC), and
-- the limits few_likes and posts_per_account.

-- name: items
-- Without the columns of fields, which may have any name.
CREATE TEMP VIEW items AS
SELECT account_id, surface, media_id, published_at, removed_at, removal FROM core.media

-- name: days
-- The days of the time axes, and the surfaces of which a sync ended on each. The others have no data: they are a gap, not
-- zero. A backfill may be of a single account, and proves nothing about the others.
CREATE TEMP TABLE days AS
WITH ended AS (
    SELECT (ended_at AT TIME ZONE 'UTC')::DATE AS day,
        flatten(list(coalesce(string_split(selection, ' and '), getvariable('surfaces')))) AS surfaces
    FROM runs WHERE kind = 'sync' AND state IN ('complete', 'partial') GROUP BY day
)
SELECT day, strftime(day, '%a %Y-%m-%d') AS name,
    if(isodow(day) = 1 OR day = getvariable('since')::DATE, strftime(day, '%-d %b'), '') AS label,
    coalesce(ended.surfaces, []) AS synced
FROM (
    SELECT unnest(generate_series(getvariable('since')::DATE, getvariable('made_at')::DATE, INTERVAL 1 DAY))::DATE AS day
) LEFT JOIN ended USING (day)

-- name: accounts
SELECT count(*) AS accounts FROM accounts WHERE removed_at IS NULL AND account_id IN (FROM chosen)

-- name: totals
SELECT surface, count(*) AS present
FROM items SEMI JOIN (SELECT account_id FROM accounts WHERE removed_at IS NULL) USING (account_id)
WHERE removed_at IS NULL AND surface IN getvariable('surfaces') AND account_id IN (FROM chosen) GROUP BY surface

-- name: incomplete
-- The last outcome of each partition that is incomplete, with the correlation id to quote to the API's support.
SELECT f.ig_username, o.surface, o.outcome, o.error_code, o.ended_at, f.complete_at, o.resume_after, o.correlation_id,
    count(*) OVER (PARTITION BY o.outcome = 'deferred') AS total
FROM last_outcomes AS o JOIN fresh AS f USING (account_id, surface)
WHERE o.outcome NOT IN ('complete', 'skipped', 'recent')
QUALIFY row_number() OVER (
    PARTITION BY o.outcome = 'deferred' ORDER BY f.complete_at NULLS FIRST, f.ig_username, o.surface
) <= 20
ORDER BY f.complete_at NULLS FIRST, f.ig_username, o.surface

-- name: outcomes
-- The outcomes of the last 30 runs. The catalogue does not count as an account.
SELECT o.* REPLACE (nullif(o.account_id, '') AS account_id) FROM run_outcomes AS o
SEMI JOIN (SELECT run_id FROM runs WHERE kind <> 'totals' ORDER BY seq DESC LIMIT 30) USING (run_id)
WHERE (o.account_id IN (FROM chosen) AND o.surface IN getvariable('surfaces')) OR o.resource = 'accounts'

-- name: oldest
SELECT ig_username, surface, complete_at, coalesce(outcome, 'none yet') AS outcome,
    CASE
        WHEN stale_at IS NULL THEN 'token expired'
        WHEN is_overdue THEN 'stale'
        WHEN complete_at IS NULL THEN 'never scanned'
        ELSE 'fresh'
    END AS state
FROM fresh ORDER BY complete_at NULLS FIRST, ig_username, surface LIMIT 10

-- name: gained
-- The same as the view engagement_by_day, but only for the covered days: the view compares all counts ever seen.
-- hash() makes one short key from three texts, so that a million items are sorted in a second.
CREATE TEMP TABLE gained AS
WITH counted AS (
    SELECT hash(account_id, media_id, metric) AS item, account_id, media_id, metric, observed_at, value
    FROM media_metrics
    WHERE surface = 'posts' AND metric IN ('like_count', 'comments_count') AND value IS NOT NULL
      AND observed_at >= getvariable('since') AND account_id IN (FROM chosen)
),
before AS (
    SELECT hash(account_id, media_id, metric) AS item, max(observed_at) AS observed_at,
        arg_max(value, observed_at) AS value
    FROM media_metrics
    WHERE surface = 'posts' AND metric IN ('like_count', 'comments_count') AND value IS NOT NULL
      AND observed_at < getvariable('since') AND hash(account_id, media_id, metric) IN (SELECT item FROM counted)
    GROUP BY item
),
stepped AS (
    SELECT *, lag(value) OVER (PARTITION BY item ORDER BY observed_at) AS earlier
    FROM (FROM counted UNION ALL BY NAME FROM before)
),
gains AS (
    SELECT account_id, metric, observed_at, value - earlier AS gain
    FROM stepped WHERE account_id IS NOT NULL AND earlier IS NOT NULL
    UNION ALL
    SELECT s.account_id, s.metric, s.observed_at, s.value
    FROM stepped AS s JOIN media AS m USING (account_id, media_id)
    WHERE s.earlier IS NULL AND m.surface = 'posts' AND s.observed_at < m.published_at + INTERVAL 48 HOURS
      AND m.published_at BETWEEN getvariable('since') - INTERVAL 48 HOURS AND getvariable('made_at') + INTERVAL 24 HOURS
)
SELECT account_id, (observed_at AT TIME ZONE 'UTC')::DATE AS day,
    (sum(gain) FILTER (metric = 'like_count'))::BIGINT AS likes,
    (sum(gain) FILTER (metric = 'comments_count'))::BIGINT AS comments
FROM gains GROUP BY ALL

-- name: engagement
SELECT d.name, d.label, 'posts' IN d.synced OR g.day IS NOT NULL AS is_seen,
    if(is_seen, coalesce(COLUMNS(g.* EXCLUDE (day)), 0), NULL), coalesce(p.posts, 0) AS posts
FROM days AS d
LEFT JOIN (SELECT day, sum(COLUMNS(['likes', 'comments']))::BIGINT FROM gained GROUP BY day) AS g USING (day)
LEFT JOIN (
    SELECT (published_at AT TIME ZONE 'UTC')::DATE AS day, count(*) AS posts FROM media
    WHERE surface = 'posts' AND published_at BETWEEN getvariable('since') AND getvariable('made_at')
      AND account_id IN (FROM chosen)
    GROUP BY ALL
) AS p USING (day)
WHERE EXISTS (FROM gained) ORDER BY d.day

-- name: gainers
SELECT a.ig_username, sum(g.likes)::BIGINT AS likes, coalesce(sum(g.comments), 0)::BIGINT AS comments
FROM gained AS g JOIN accounts AS a USING (account_id)
GROUP BY a.account_id, a.ig_username HAVING sum(g.likes) > 0 ORDER BY likes DESC, a.ig_username LIMIT 10

-- name: ripe
CREATE TEMP TABLE ripe AS
FROM post_performance WHERE relative_likes IS NOT NULL AND account_id IN (FROM chosen)

-- name: recent_posts
-- Only the posts that are drawn: the twenty best, and a sample of 3000 for the usual growth. The sample is selected by a
-- hash, so that a snapshot always gives the same page. Growth is not computed for any others.
CREATE TEMP TABLE recent_posts AS
WITH usual AS (SELECT account_id, any_value(median_likes) AS usual FROM ripe GROUP BY account_id)
FROM (
    SELECT m.account_id, m.media_id, m.ig_username, m.caption, m.permalink, m.published_at, m.last_seen_at, m.like_count,
        u.usual, m.like_count / u.usual AS times,
        row_number() OVER (ORDER BY m.like_count / u.usual DESC, m.account_id, m.media_id) AS rank,
        row_number() OVER (ORDER BY hash(m.account_id, m.media_id), m.account_id, m.media_id) <= 3000 AS is_sample
    FROM media AS m JOIN usual AS u ON u.account_id = m.account_id
    WHERE m.surface = 'posts' AND m.like_count IS NOT NULL AND u.usual >= getvariable('few_likes')
      AND m.published_at BETWEEN getvariable('made_at') - INTERVAL 28 DAYS AND getvariable('made_at')
) WHERE rank <= 20 OR is_sample

-- name: recent_likes
CREATE TEMP TABLE recent_likes AS
SELECT r.account_id, r.media_id, r.rank, r.is_sample, r.published_at, r.last_seen_at, c.value,
    c.value / r.usual AS times, greatest((epoch(c.observed_at) - epoch(r.published_at)) / 86400, 0) AS age
FROM media_metrics AS c JOIN recent_posts AS r ON r.account_id = c.account_id AND r.media_id = c.media_id
WHERE c.surface = 'posts' AND c.metric = 'like_count' AND c.observed_at >= getvariable('made_at') - INTERVAL 29 DAYS

-- name: growth
-- value_24h and value_7d are the same as in the view post_growth. The last count applies until the post was last seen.
SELECT *, counts || [[greatest(seen, each[1]), each[2]] for each in counts[-1:]] AS points,
    format('{}. {}: {:.1f} times the usual', rank, ig_username, times) AS name,
    coalesce(['c1', 'c3', 'c2', 'c5', 'c4'][rank], 'c0 thin') AS style
FROM (
    SELECT r.rank, r.ig_username, r.caption, r.permalink, r.published_at, r.like_count, r.times,
        arg_max_null(g.value, g.age) FILTER (g.age <= 1 AND r.last_seen_at >= r.published_at + INTERVAL 24 HOURS)
            AS value_24h,
        arg_max_null(g.value, g.age) FILTER (g.age <= 7 AND r.last_seen_at >= r.published_at + INTERVAL 168 HOURS)
            AS value_7d,
        coalesce(list([g.age, g.times] ORDER BY g.age) FILTER (g.age <= 28 AND g.value IS NOT NULL), []) AS counts,
        least((epoch(r.last_seen_at) - epoch(r.published_at)) / 86400, 28) AS seen
    FROM recent_posts AS r
    LEFT JOIN recent_likes AS g ON g.account_id = r.account_id AND g.media_id = r.media_id
    WHERE r.rank <= 20 GROUP BY ALL
) ORDER BY rank

-- name: band
-- Each post's likes at every full day of its age, until it was last seen.
WITH posts AS (SELECT DISTINCT account_id, media_id, published_at, last_seen_at FROM recent_likes WHERE is_sample),
asked AS (
    SELECT account_id, media_id, day::DOUBLE AS day FROM posts, (SELECT unnest(range(1, 29)) AS day)
    WHERE last_seen_at >= published_at + to_days(day::INTEGER)
)
SELECT a.day AS x, quantile_cont(l.times, 0.25) AS low, median(l.times) AS middle, quantile_cont(l.times, 0.75) AS high
FROM asked AS a ASOF JOIN (FROM recent_likes WHERE value IS NOT NULL) AS l
  ON l.account_id = a.account_id AND l.media_id = a.media_id AND a.day >= l.age
GROUP BY a.day HAVING count(*) >= 5 ORDER BY a.day

-- name: top
SELECT r.ig_username, r.published_at, r.like_count, r.median_likes, r.relative_likes, m.caption, m.permalink,
    m.removed_at
FROM (
    FROM ripe WHERE median_likes >= getvariable('few_likes')
    QUALIFY row_number() OVER (PARTITION BY account_id ORDER BY relative_likes DESC, media_id)
        <= getvariable('posts_per_account')
    ORDER BY relative_likes DESC, account_id, media_id LIMIT 20
) AS r
JOIN media AS m ON m.surface = 'posts' AND m.account_id = r.account_id AND m.media_id = r.media_id
ORDER BY r.relative_likes DESC, r.account_id, r.media_id

-- name: hours
-- The same as the view best_hour, but only for the chosen accounts.
SELECT isodow(published_at AT TIME ZONE 'UTC') - 1 AS "row", hour(published_at AT TIME ZONE 'UTC') AS "column",
    strftime(any_value(published_at AT TIME ZONE 'UTC'), '%a %H:00') AS hour, count(*) AS posts,
    count(DISTINCT account_id) AS accounts, median(relative_likes) AS times, count(*) < 5 AS is_few,
    format('{} UTC: {:.2f} times the usual; posts: {}, accounts: {}', hour, times, posts, accounts) AS name,
    CASE
        WHEN times < 0.67 THEN 'h0' WHEN times < 0.87 THEN 'h1' WHEN times < 1.15 THEN 'h2' WHEN times < 1.5 THEN 'h3'
        ELSE 'h4'
    END AS style
FROM ripe GROUP BY ALL ORDER BY is_few, times DESC, "row", "column"

-- name: cadence
-- The condition of stopped_posting in stale_accounts. That view itself depends on the reader's clock.
CREATE TEMP TABLE cadence AS
SELECT *, posts >= 5 AND days_since_last_post > greatest(3 * median_days_between_posts, 7) AS is_silent
FROM posting_cadence WHERE account_id IN (FROM chosen)

-- name: busiest
SELECT *, count(*) OVER () AS total FROM cadence
ORDER BY posts_28d DESC, last_post_at DESC NULLS LAST, ig_username LIMIT 20

-- name: silent
SELECT *, count(*) OVER () AS total FROM cadence WHERE is_silent
ORDER BY days_since_last_post DESC, ig_username LIMIT 10

-- name: removed
SELECT d.name, d.label, d.synced, r.day IS NOT NULL AS is_any, coalesce(r.by_surface, MAP {}) AS by_surface
FROM days AS d LEFT JOIN (
    SELECT (removed_at AT TIME ZONE 'UTC')::DATE AS day, histogram(surface) AS by_surface FROM items
    WHERE removed_at >= getvariable('since') AND removal = 'removed' AND surface IN getvariable('surfaces')
      AND account_id IN (FROM chosen)
    GROUP BY day
) AS r USING (day) ORDER BY d.day

-- name: last_removed
-- Only media have a caption. Items of other tables are named by their id.
SELECT a.ig_username, i.surface, if(m.media_id IS NULL, i.media_id, m.caption) AS caption, i.published_at,
    m.last_seen_at, i.removed_at, m.like_count, count(*) OVER () AS total
FROM items AS i JOIN accounts AS a USING (account_id)
LEFT JOIN media AS m
  ON m.removal = 'removed' AND m.account_id = i.account_id AND m.surface = i.surface AND m.media_id = i.media_id
WHERE i.removal = 'removed' AND i.surface IN getvariable('surfaces') AND i.account_id IN (FROM chosen)
ORDER BY i.removed_at DESC, i.account_id, i.media_id, i.surface LIMIT 20

-- name: stories
SELECT d.name, d.label, 'stories' IN d.synced OR s.day IS NOT NULL AS is_seen,
    if(is_seen, coalesce(COLUMNS(s.* EXCLUDE (day)), 0), NULL)
FROM days AS d LEFT JOIN (
    SELECT day, sum(COLUMNS(['live', 'expired', 'unconfirmed', 'removed']))::BIGINT
    FROM stories_by_day WHERE account_id IN (FROM chosen) GROUP BY day
) AS s USING (day) ORDER BY d.day

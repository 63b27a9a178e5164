-- Stories captured, by account and day of publication in UTC, and what became of them. A story without a time of
-- publication counts on the day on which it was first seen. Accounts that left the catalogue keep their days. A day
-- without a story has no row.
-- key: account_id, day
-- join: accounts by account_id
WITH story AS (
    SELECT account_id, ig_username, coalesce(published_at, first_seen_at) AS began_at, last_seen_at, removal
    FROM media
    WHERE surface = 'stories'
),
judged AS (
    SELECT
        t.account_id,
        t.ig_username,
        (t.began_at AT TIME ZONE 'UTC')::DATE AS day,
        CASE
            WHEN t.removal IS NOT NULL THEN t.removal
            WHEN t.last_seen_at >= w.complete_at AND s.snapshot_at < t.began_at + INTERVAL 24 HOURS THEN 'live'
            ELSE 'unconfirmed'
        END AS fate
    FROM story AS t
    CROSS JOIN published AS s
    LEFT JOIN completed_scans AS w ON w.resource = 'media' AND w.account_id = t.account_id AND w.surface = 'stories'
)
SELECT
    account_id,  -- The account's id.
    ig_username,  -- Its name on the social network.
    day,  -- The day, in UTC.
    count(*) AS stories,  -- Stories captured: the sum of the next four.
    count(*) FILTER (fate = 'live') AS live,  -- Younger than 24 hours, and seen in the last complete scan or since.
    count(*) FILTER (fate = 'expired') AS expired,  -- Gone after their 24 hours.
    count(*) FILTER (fate = 'removed') AS removed,  -- Gone before that: taken down.
    count(*) FILTER (fate = 'unconfirmed') AS unconfirmed  -- Neither: past 24 hours, or not in the last complete scan.
FROM judged
GROUP BY account_id, ig_username, day

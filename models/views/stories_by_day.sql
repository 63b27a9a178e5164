-- Stories captured, by account and day of publication in UTC, and what became of them. A story without a time of
-- publication counts on the day on which it was first seen. Accounts that left the catalogue keep their days. A day
-- without a story has no row.
-- key: account_id, day
-- join: accounts by account_id
WITH judged AS (
    SELECT
        m.account_id,
        a.ig_username,
        (coalesce(m.published_at, m.first_seen_at) AT TIME ZONE 'UTC')::DATE AS day,
        CASE
            WHEN m.removal IS NOT NULL THEN m.removal
            WHEN m.missed_at IS NULL AND m.seen_seq >= w.began_seq
                AND p.snapshot_at < coalesce(m.published_at, m.first_seen_at) + INTERVAL 24 HOURS THEN 'live'
            ELSE 'unconfirmed'
        END AS fate
    FROM core.media AS m
    CROSS JOIN core.published AS p
    LEFT JOIN core.accounts AS a ON a.account_id = m.account_id
    LEFT JOIN core.closed_scans AS w
        ON w.resource = 'media' AND w.account_id = m.account_id AND w.surface = 'stories'
    WHERE m.surface = 'stories'
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

-- What is listed of each account, missed, and confirmed as missing. Writes nothing.
SELECT account_id, count(*) AS listed, count(missed_at) AS missed, count(confirmed_by) AS confirmed
FROM core.media
WHERE removed_at IS NULL
GROUP BY account_id

-- name: missing
-- How many have this mark of all items that are listed, of all accounts, and of an account's items, if they are too
-- many: more than ten, and more than a tenth, of all or of an account with more than 20 items. Writes nothing.
SELECT account_id, missing, missing > 10 AND missing > 0.1 * listed AS is_too_many
FROM (
    SELECT 1 AS place, account_id, count(*) AS listed, count({mark}) AS missing
    FROM core.media WHERE removed_at IS NULL GROUP BY ROLLUP (account_id)
    UNION ALL
    SELECT 2, NULL, count(*), count({mark}) FROM core.accounts WHERE removed_at IS NULL
)
WHERE account_id IS NULL OR (is_too_many AND listed > 20)
ORDER BY account_id NULLS FIRST, place

-- name: removed_events
-- The removals of confirmed items, but for those of the accounts that are kept. Writes core.events.
INSERT INTO core.events BY NAME
SELECT account_id, surface, media_id, 'removed' AS event, missed_at AS changed_at, ? AS run_seq
FROM core.media
WHERE confirmed_by IS NOT NULL AND NOT list_contains(?::VARCHAR[], account_id)
ORDER BY account_id, surface, media_id

-- name: removed_items
-- Marks them. Writes core.media.
UPDATE core.media SET removed_at = missed_at, removal = 'removed', run_seq = ?, confirmed_by = NULL
WHERE confirmed_by IS NOT NULL AND NOT list_contains(?::VARCHAR[], account_id)

-- name: accepted_accounts
-- A person confirms that the accounts are gone that the last complete catalogue did not list. Writes core.accounts.
UPDATE core.accounts SET missed_at = coalesce(accounts.missed_at, w.complete_at), confirmed_by = ?
FROM core.closed_scans AS w
WHERE w.resource = 'accounts' AND accounts.removed_at IS NULL AND accounts.seen_seq < w.began_seq

-- name: ended_periods
-- Ends the status of the confirmed accounts. Writes core.account_periods.
UPDATE core.account_periods AS p SET valid_to = a.missed_at
FROM core.accounts AS a
WHERE a.account_id = p.account_id AND a.confirmed_by IS NOT NULL AND p.attribute = 'status' AND p.valid_to IS NULL

-- name: removed_periods
-- Begins the time in which they are removed. Writes core.account_periods.
INSERT INTO core.account_periods BY NAME
SELECT
    account_id, 'status' AS attribute, 'removed' AS value, missed_at AS valid_from, NULL AS valid_to,
    (SELECT merged_seq FROM core.warehouse) AS seq, ? AS run_seq
FROM core.accounts
WHERE confirmed_by IS NOT NULL
ORDER BY account_id

-- name: removed_accounts
-- Marks them. Writes core.accounts.
UPDATE core.accounts SET removed_at = missed_at, removal = 'removed', run_seq = ?, confirmed_by = NULL
WHERE confirmed_by IS NOT NULL

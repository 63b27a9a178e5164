-- Begins the time in which they are removed. Writes core.account_periods.
INSERT INTO core.account_periods BY NAME
SELECT
    account_id, 'status' AS attribute, 'removed' AS value, missed_at AS valid_from, NULL AS valid_to,
    (SELECT merged_seq FROM core.warehouse) AS seq, ? AS run_seq
FROM core.accounts
WHERE confirmed_by IS NOT NULL
ORDER BY account_id

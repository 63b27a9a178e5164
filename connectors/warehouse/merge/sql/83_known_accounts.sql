-- The accounts that the batch lists, with their periods as a list, oldest first. Writes nothing.
SELECT a.*, (SELECT list(p ORDER BY p.seq, p.valid_from) FROM core.account_periods AS p WHERE p.account_id = a.account_id) AS periods
FROM core.accounts AS a
WHERE a.account_id IN (SELECT unnest(?::VARCHAR[]))

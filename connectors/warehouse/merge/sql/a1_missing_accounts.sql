-- The same of the catalogue: one row. Writes nothing.
SELECT count(*) AS listed, count(missed_at) AS missed, count(confirmed_by) AS confirmed
FROM core.accounts
WHERE removed_at IS NULL

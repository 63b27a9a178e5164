-- Ends the status of the confirmed accounts. Writes core.account_periods.
UPDATE core.account_periods AS p SET valid_to = a.missed_at
FROM core.accounts AS a
WHERE a.account_id = p.account_id AND a.confirmed_by IS NOT NULL AND p.attribute = 'status' AND p.valid_to IS NULL

-- Deletes the periods of the accounts whose status or name changed. Writes core.account_periods.
DELETE FROM core.account_periods WHERE account_id IN (SELECT account_id FROM periods)

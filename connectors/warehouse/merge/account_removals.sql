-- Marks the accounts in missed_accounts that are gone, and remembers the others. Writes core.accounts,
-- core.account_status_history and ops.missing_accounts.

UPDATE core.accounts SET removed_at = m.missing_since, run_seq = m.run_seq
FROM missed_accounts AS m WHERE accounts.account_id = m.account_id AND m.is_gone;

UPDATE core.account_status_history AS h SET valid_to = m.missing_since
FROM missed_accounts AS m WHERE h.account_id = m.account_id AND h.valid_to IS NULL AND m.is_gone;

INSERT INTO core.account_status_history (account_id, status, valid_from, run_seq)
SELECT account_id, 'removed', missing_since, run_seq FROM missed_accounts WHERE is_gone ORDER BY account_id;

DELETE FROM ops.missing_accounts WHERE account_id IN (SELECT account_id FROM missed_accounts);

INSERT INTO ops.missing_accounts SELECT account_id, missing_since FROM missed_accounts WHERE NOT is_gone;

INSERT INTO run_numbers SELECT run_id, 'accounts_removed', count(*) FROM missed_accounts WHERE is_gone GROUP BY run_id;

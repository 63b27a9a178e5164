-- Writes core.accounts.
MERGE INTO core.accounts AS a
USING listed_accounts AS l
ON a.account_id = l.account_id
WHEN MATCHED THEN UPDATE SET
    listed_as = l.listed_as, ig_username = l.ig_username, public_id = l.public_id, status = l.status, status_since = l.status_since,
    run_seq = l.run_seq, first_seen_at = l.first_seen_at, seen_seq = l.seen_seq, present_seq = l.present_seq,
    last_seen_at = l.last_seen_at, missed_at = NULL, confirmed_by = NULL, removed_at = NULL, removal = NULL
WHEN NOT MATCHED THEN INSERT BY NAME

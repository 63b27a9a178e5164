-- Writes core.quarantine: a record that is there already gets a later time, whatever its place on the page.
MERGE INTO core.quarantine AS q
USING quarantined AS r
ON q.digest = r.digest AND q.reason = r.reason AND q.resource = r.resource AND q.account_id = r.account_id
    AND q.surface = r.surface
WHEN MATCHED THEN UPDATE SET last_seen_at = r.last_seen_at
WHEN NOT MATCHED THEN INSERT BY NAME
RETURNING merge_action, run_id

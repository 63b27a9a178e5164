-- Writes core.run_outcomes: the last outcome of a partition in a run counts.
MERGE INTO core.run_outcomes AS o
USING outcomes AS n
ON o.run_id = n.run_id AND o.resource = n.resource AND o.account_id = n.account_id AND o.surface = n.surface
WHEN MATCHED THEN UPDATE SET
    outcome = n.outcome, pages = n.pages, items = n.items, error_code = n.error_code, http_status = n.http_status,
    correlation_id = n.correlation_id, resume_after = n.resume_after, detail = n.detail, started_at = n.started_at,
    ended_at = n.ended_at
WHEN NOT MATCHED THEN INSERT BY NAME

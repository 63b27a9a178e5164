-- name: counted
-- Adds up the counts of runs. Writes core.run_counts.
MERGE INTO core.run_counts AS c
USING (SELECT unnest(?, max_depth := 2)) AS n
ON c.run_seq = n.run_seq
WHEN MATCHED THEN UPDATE SET
    pages = c.pages + n.pages, items = c.items + n.items, added = c.added + n.added, changed = c.changed + n.changed,
    returned = c.returned + n.returned, missed = c.missed + n.missed, removed = c.removed + n.removed,
    expired = c.expired + n.expired, accounts_removed = c.accounts_removed + n.accounts_removed,
    quarantined = c.quarantined + n.quarantined
WHEN NOT MATCHED THEN INSERT BY NAME

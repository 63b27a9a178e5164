-- name: counted
-- Adds up the counts of runs. Writes core.run_counts.
MERGE INTO core.run_counts AS c
USING (
    SELECT run_seq, run_id, coalesce(COLUMNS(* EXCLUDE (run_seq, run_id)), 0)
    FROM (
        PIVOT (SELECT unnest(?, max_depth := 2)) ON name IN (
            'pages', 'items', 'added', 'changed', 'returned', 'missed', 'removed', 'expired', 'accounts_removed',
            'quarantined'
        ) USING sum(number) GROUP BY run_seq, run_id
    )
) AS n
ON c.run_seq = n.run_seq
WHEN MATCHED THEN UPDATE SET
    pages = c.pages + n.pages, items = c.items + n.items, added = c.added + n.added, changed = c.changed + n.changed,
    returned = c.returned + n.returned, missed = c.missed + n.missed, removed = c.removed + n.removed,
    expired = c.expired + n.expired, accounts_removed = c.accounts_removed + n.accounts_removed,
    quarantined = c.quarantined + n.quarantined
WHEN NOT MATCHED THEN INSERT BY NAME

-- name: counts
-- One row, of zeros for a run that merged nothing. Writes nothing.
SELECT coalesce(any_value(pages), 0), coalesce(any_value(items), 0), coalesce(any_value(accounts_removed), 0), {
    'added': coalesce(any_value(added), 0), 'changed': coalesce(any_value(changed), 0),
    'returned': coalesce(any_value(returned), 0), 'removed': coalesce(any_value(removed), 0),
    'expired': coalesce(any_value(expired), 0), 'quarantined': coalesce(any_value(quarantined), 0)
}
FROM core.run_counts WHERE run_id = ?

-- Adds the removals to the counts of the run that made them. Writes core.run_counts.
MERGE INTO core.run_counts AS c
USING (SELECT ? AS run_seq, ? AS run_id, ? AS removed, ? AS accounts_removed) AS n
ON c.run_seq = n.run_seq
WHEN MATCHED THEN UPDATE SET
    removed = c.removed + n.removed, accounts_removed = c.accounts_removed + n.accounts_removed
WHEN NOT MATCHED THEN INSERT VALUES (n.run_seq, n.run_id, 0, 0, 0, 0, 0, 0, n.removed, 0, n.accounts_removed, 0)

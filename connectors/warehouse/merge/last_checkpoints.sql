-- The last checkpoints of the partitions that have one in this batch. Writes no table.
CREATE OR REPLACE TEMP TABLE last_checkpoints AS
SELECT l.* REPLACE (coalesce(c.began_seq, l.began_seq) AS began_seq)
FROM ({rows}) AS l
LEFT JOIN ops.checkpoints AS c USING (resource, account_id, surface, run_kind, scan_id);

-- Forgets what scans have seen that are not unfinished any more. Writes ops.seen.
DELETE FROM ops.seen WHERE scan_id IN (SELECT scan_id FROM last_checkpoints WHERE state <> 'scanning');

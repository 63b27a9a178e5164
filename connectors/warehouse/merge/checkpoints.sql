-- Replaces the checkpoints, and forgets what scans have seen that are not unfinished. Writes ops.checkpoints and
-- ops.seen.
DELETE FROM ops.checkpoints AS c USING last_checkpoints AS l
WHERE c.resource = l.resource AND c.account_id = l.account_id AND c.surface = l.surface AND c.run_kind = l.run_kind;

INSERT INTO ops.checkpoints BY NAME FROM last_checkpoints;

DELETE FROM ops.seen WHERE scan_id NOT IN (SELECT scan_id FROM ops.checkpoints WHERE state = 'scanning');

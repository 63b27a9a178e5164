-- Deletes the findings of scans that began before those that the batch closed. Writes core.scan_findings.
DELETE FROM core.scan_findings AS f
USING closing AS c
WHERE f.resource = c.resource AND f.account_id = c.account_id AND f.surface = c.surface AND f.seq < c.began_seq

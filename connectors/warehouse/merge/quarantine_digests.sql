-- Computes the digests of records that have none, because the mapping has changed: several may be the same record now.
-- Writes core.quarantine.
UPDATE core.quarantine SET digest = {digest} WHERE digest IS NULL;

CREATE OR REPLACE TEMP TABLE quarantined_twice AS
SELECT
    reason, resource, account_id, surface, digest, arg_min(rowid, (seen_at, page, position)) AS first,
    max(last_seen_at) AS last_seen_at
FROM core.quarantine GROUP BY reason, resource, account_id, surface, digest HAVING count(*) > 1;

DELETE FROM core.quarantine AS q USING quarantined_twice AS t
WHERE t.reason = q.reason AND t.resource = q.resource AND t.account_id = q.account_id AND t.surface = q.surface
  AND t.digest = q.digest AND q.rowid <> t.first;

UPDATE core.quarantine AS q SET last_seen_at = t.last_seen_at FROM quarantined_twice AS t
WHERE t.reason = q.reason AND t.resource = q.resource AND t.account_id = q.account_id AND t.surface = q.surface
  AND t.digest = q.digest;

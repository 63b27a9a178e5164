-- The last closed scans of the partitions that the batch closes. Writes nothing.
SELECT
    c.n,
    if(w.seq IS NULL, NULL, w) AS before,
    c.scan_id IN (SELECT scan_id FROM core.scan_findings WHERE finding <> 'listed_twice') AS is_blocked
FROM ends AS c
LEFT JOIN core.closed_scans AS w
    ON w.resource = c.resource AND w.account_id = c.account_id AND w.surface = c.surface
ORDER BY c.n

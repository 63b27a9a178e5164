-- Counts what the batch's pages contain. Writes no table.

-- What each run is credited with: later steps add the changes that result from its pages and its scans. Without a scan
-- id: malformed pages, which landed only for quarantine, and items that a rebuild imports from it, which were counted
-- when they landed.
CREATE OR REPLACE TEMP TABLE run_numbers AS
SELECT run_id, 'pages' AS what, count(*) AS number FROM pages WHERE scan_id <> '' GROUP BY run_id
UNION ALL
SELECT run_id, 'items', sum(items)::BIGINT FROM pages WHERE scan_id <> '' GROUP BY run_id;

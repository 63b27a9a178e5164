-- name: old
-- A run is kept at any age if it is running, if it is the last ended run of its kind and selection, or if the next run
-- of the same kind and selection may resume it.
WITH RECURSIVE runs AS (
    SELECT
        run_id, resumes, started_at, state,
        state IN ('complete', 'partial', 'failed') AS ended,
        state = 'interrupted' OR published_at IS NULL AS unfinished,
        row_number() OVER (PARTITION BY kind, selection ORDER BY seq DESC) = 1 AS newest,
        row_number() OVER (PARTITION BY kind, selection, ended ORDER BY seq DESC) = 1 AS last
    FROM core.runs
),
chain AS (
    SELECT run_id, resumes FROM runs WHERE newest AND unfinished
    UNION
    SELECT r.run_id, r.resumes FROM chain AS c JOIN runs AS r ON r.run_id = c.resumes WHERE r.unfinished
)
SELECT run_id FROM runs
WHERE started_at < ?::TIMESTAMPTZ AND state <> 'running' AND NOT (ended AND last)
  AND run_id NOT IN (SELECT run_id FROM chain)

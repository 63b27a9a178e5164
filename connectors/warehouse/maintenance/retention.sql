-- name: agreed
-- The first end of the last runs before this one. Writes nothing.
SELECT min(ended_at)
FROM (SELECT ended_at FROM core.runs WHERE seq < (SELECT max(seq) FROM core.runs) ORDER BY seq DESC LIMIT ?)

-- name: quarantined
-- Writes core.quarantine.
DELETE FROM core.quarantine WHERE last_seen_at < ?

-- name: old
-- A run is kept at any age if it is running, if it is the last ended run of its kind and selection, or if the next run
-- of the same kind and selection may resume it.
CREATE OR REPLACE TEMP TABLE old_runs AS
WITH RECURSIVE told AS (
    SELECT
        run_id, resumes, started_at, state,
        state IN ('complete', 'partial', 'failed') AS ended,
        state = 'interrupted' OR published_at IS NULL AS unfinished,
        row_number() OVER (PARTITION BY kind, selection ORDER BY seq DESC) = 1 AS newest,
        row_number() OVER (PARTITION BY kind, selection, ended ORDER BY seq DESC) = 1 AS last
    FROM core.runs
),
chain AS (
    SELECT run_id, resumes FROM told WHERE newest AND unfinished
    UNION
    SELECT r.run_id, r.resumes FROM chain AS c JOIN told AS r ON r.run_id = c.resumes WHERE r.unfinished
)
SELECT run_id FROM told
WHERE started_at < ?::TIMESTAMPTZ AND state <> 'running' AND NOT (ended AND last)
  AND run_id NOT IN (SELECT run_id FROM chain)

-- name: outcomes
-- The last outcome of each partition is kept at any age, because views show it. Writes core.run_outcomes.
DELETE FROM core.run_outcomes
WHERE run_id IN (SELECT run_id FROM old_runs) AND rowid NOT IN (
    SELECT arg_max(o.rowid, r.seq) FROM core.run_outcomes AS o JOIN core.runs AS r USING (run_id)
    GROUP BY o.resource, o.account_id, o.surface
)

-- name: runs
-- Writes core.runs.
DELETE FROM core.runs
WHERE run_id IN (SELECT run_id FROM old_runs) AND run_id NOT IN (SELECT run_id FROM core.run_outcomes)
RETURNING run_id

-- name: warnings
-- Writes core.run_warnings.
DELETE FROM core.run_warnings WHERE run_id NOT IN (SELECT run_id FROM core.runs)

-- name: unlisted
-- The counts of deleted runs.
CREATE OR REPLACE TEMP TABLE unlisted AS FROM core.run_counts WHERE run_id = '' OR list_contains(?, run_id)

-- name: counts
-- Adds them up in one row, whose run has no id. Writes core.run_counts.
DELETE FROM core.run_counts WHERE run_id IN (SELECT run_id FROM unlisted);
INSERT INTO core.run_counts BY NAME
SELECT 0 AS run_seq, '' AS run_id, sum(COLUMNS(* EXCLUDE (run_seq, run_id)))::BIGINT FROM unlisted HAVING count(*) > 0;
DROP TABLE temp.unlisted

-- name: repeated
-- The outcomes recent and complete count as the same. Each partition's last outcome is kept because it is read later.
-- The first one of each month is kept too, so that when the oldest runs are deleted, the deleted outcomes of later runs
-- can still be inferred from an equal one. Which accounts a backfill scanned, or a sync of what was due, cannot be
-- inferred, nor what a run that failed has scanned, or one before its last day: of these an outcome is deleted only if it
-- equals one of the same day. Writes core.run_outcomes.
WITH old AS (
    SELECT
        o.rowid AS row_id, o.outcome, (o.ended_at AT TIME ZONE 'UTC')::DATE AS day,
        r.kind = 'sync' AND NOT coalesce(starts_with(r.selection, 'due'), false) AND r.state IN ('complete', 'partial')
            AND day = (r.ended_at AT TIME ZONE 'UTC')::DATE AS scans_all,
        concat_ws(' ', replace(o.outcome, 'recent', 'complete'), o.error_code, o.detail) AS seen,
        lag(seen) OVER (
            PARTITION BY o.resource, o.account_id, o.surface, date_trunc('month', o.ended_at) ORDER BY r.seq
        ) AS seen_before,
        lag(day) OVER (PARTITION BY o.resource, o.account_id, o.surface ORDER BY r.seq) AS day_before
    FROM core.run_outcomes AS o JOIN core.runs AS r USING (run_id)
    WHERE o.ended_at < ?::TIMESTAMPTZ AND r.seq <= (SELECT max(seq) - ? FROM core.runs)
)
DELETE FROM core.run_outcomes
WHERE rowid IN (
    SELECT row_id FROM old
    WHERE outcome IN ('complete', 'recent', 'skipped') AND seen = seen_before AND (scans_all OR day = day_before)
  )
  AND rowid NOT IN (
    SELECT arg_max(o.rowid, r.seq) FROM core.run_outcomes AS o JOIN core.runs AS r USING (run_id)
    GROUP BY o.resource, o.account_id, o.surface
  )

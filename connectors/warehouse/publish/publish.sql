-- name: bring
-- Replaces what the views need of the pipeline's state. Writes core.runs, core.run_warnings and core.open_checkpoints.
--
-- Reads state_runs, state_warnings and state_checkpoints: rows of the state, read in one transaction.
DELETE FROM core.runs;

INSERT INTO core.runs BY NAME FROM state_runs;

DELETE FROM core.run_warnings;

INSERT INTO core.run_warnings BY NAME FROM state_warnings;

DELETE FROM core.open_checkpoints;

-- An open scan leaves a gap unless a scan of its partition that began later was closed: that has read what it left out.
-- The reason is from the last run that scanned the partition for it.
INSERT INTO core.open_checkpoints BY NAME
SELECT
    c.account_id, c.surface, c.scan_id, c.started_at, c.cursor, c.pages, c.read_to,
    (
        SELECT max(m.published_at) FROM core.media AS m
        WHERE m.account_id = c.account_id AND m.surface = c.surface AND m.present_seq <= w.seq
    ) AS known_from,
    coalesce(
        (
            SELECT arg_max(coalesce(o.error_code, 'interrupted'), r.seq)
            FROM core.run_outcomes AS o JOIN core.runs AS r USING (run_id)
            WHERE o.run_id = c.run_id AND o.account_id = c.account_id AND o.surface = c.surface
        ),
        'interrupted'
    ) AS reason
FROM state_checkpoints AS c
LEFT JOIN core.closed_scans AS w
    ON w.resource = 'media' AND w.account_id = c.account_id AND w.surface = c.surface
WHERE c.pages > 0 AND coalesce(c.began_seq > w.seq, true)
QUALIFY row_number() OVER (PARTITION BY c.account_id, c.surface ORDER BY c.began_seq DESC) = 1;

-- name: due_scans
-- Replaces when the feeds are due. Writes core.due_scans.
DELETE FROM core.due_scans;

INSERT INTO core.due_scans BY NAME
SELECT * EXCLUDE (resource) REPLACE (due_at AT TIME ZONE 'UTC' AS due_at) FROM ({dues}) WHERE resource = 'media'

-- name: types
-- The columns of all tables. Writes nothing.
SELECT list((table_name, column_name, data_type)) FROM duckdb_columns() WHERE schema_name = 'core'

-- name: views
-- The views that are there. Writes nothing.
SELECT view_name FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal

-- name: published
-- Writes core.published.
INSERT INTO core.published BY NAME
SELECT
    ? AS snapshot_at, ? AS version, ? AS stale_after, id AS warehouse_id, ? AS full_refresh_every, ? AS hidden,
    ? AS raw_folder, ? AS views
FROM core.warehouse

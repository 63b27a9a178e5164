-- name: relations
-- A view that has the rows of one table of `core` is reported as a table.
SELECT table_name AS name, 'table' AS kind, comment
FROM duckdb_tables()
WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal
UNION ALL
SELECT v.view_name, if(t.table_name IS NULL, 'view', 'table'), v.comment
FROM duckdb_views() AS v
LEFT JOIN duckdb_tables() AS t
    ON t.database_name = v.database_name AND t.schema_name = 'core' AND t.table_name = coalesce(
        MAP {
            'account_status_history': 'account_periods',
            'completed_scans': 'closed_scans',
            'media_metrics': 'media_counts',
            'media_superseded': 'media_versions'
        }[v.view_name],
        v.view_name
    )
WHERE v.database_name = current_database() AND v.schema_name = 'main' AND NOT v.internal
UNION ALL
SELECT function_name, 'macro', comment
FROM duckdb_functions()
WHERE database_name = current_database() AND schema_name = 'main' AND function_type = 'table_macro' AND NOT internal
ORDER BY kind, name

-- name: columns
SELECT column_name AS name, data_type AS type, comment
FROM duckdb_columns()
WHERE database_name = current_database() AND schema_name = 'main' AND table_name = ?
ORDER BY column_index

-- name: raw_media
CREATE TEMP VIEW raw_versions AS
SELECT * REPLACE (try(decode(payload)) AS payload)
FROM raw_rows WHERE landed <= (SELECT merged_seq FROM core.warehouse);

CREATE TEMP VIEW raw_media AS
SELECT r.* EXCLUDE (landed, position)
FROM raw_versions AS r SEMI JOIN core.media AS m ON m.raw_landed = r.landed AND m.raw_position = r.position

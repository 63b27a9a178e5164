-- name: relations
-- A view over a table of the same name stands for that table; the others are computed.
SELECT r.name, r.kind, r.comment, r.rows
FROM (
    SELECT table_name AS name, 'table' AS kind, comment, estimated_size AS rows
    FROM duckdb_tables() WHERE schema_name = 'main'
    UNION ALL
    SELECT v.view_name, if(t.table_name IS NULL, 'view', 'table'), v.comment, t.estimated_size
    FROM duckdb_views() AS v
    LEFT JOIN duckdb_tables() AS t ON t.schema_name = 'core' AND t.table_name = v.view_name
    WHERE v.schema_name = 'main' AND NOT v.internal
) AS r
ORDER BY r.kind, r.name

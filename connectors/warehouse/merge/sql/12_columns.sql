-- The columns of core.media. Writes nothing.
SELECT column_name FROM duckdb_columns() WHERE schema_name = 'core' AND table_name = 'media'

-- name: find
-- Accounts with this id, name or public id, also removed ones, with what names them, or did.
SELECT
    account_id,
    list_concat([ig_username, public_id], (
        SELECT list(DISTINCT e.ig_username) FROM core.events AS e
        WHERE e.account_id = a.account_id AND e.ig_username IS NOT NULL
    ))
FROM core.accounts AS a
WHERE $1 IN ({names})

-- name: tables
-- The tables with rows of accounts, also those of feeds and of lists in items.
SELECT DISTINCT schema_name, table_name
FROM duckdb_columns() SEMI JOIN duckdb_tables() USING (database_oid, table_oid)
WHERE database_name = current_database() AND schema_name IN ('core', 'ops')
  AND column_name = 'account_id'
ORDER BY ALL

-- name: retire
UPDATE ops.raw_parts SET retired_at = $1, unlisted_at = $2 WHERE number = $3

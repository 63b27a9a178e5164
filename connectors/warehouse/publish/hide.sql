-- The rows of tables without what is hidden; other tables are copied. Texts that may quote any value, as it came or as a
-- person typed it, are masked.

-- name: tables
SELECT table_name, list(column_name) FROM duckdb_columns() WHERE schema_name = 'core' AND NOT internal GROUP BY 1

-- name: media
SELECT * REPLACE (if(false, overflow, NULL) AS overflow, 0 AS content_hash, 0 AS payload_hash{replaced})
FROM core.media

-- name: media_versions
SELECT * REPLACE (list_filter(changed, lambda one: NOT list_contains({gone}, one)) AS changed) FROM core.media_versions

-- name: media_counts
FROM core.media_counts WHERE NOT list_contains({gone}, metric)

-- name: fields
FROM core.fields WHERE NOT list_contains({gone}, path)

-- name: quarantine
SELECT * REPLACE ('(hidden)' AS payload, 0 AS digest) FROM core.quarantine

-- name: accounts
-- Every account has a name: one that is left out is the id.
SELECT * REPLACE ({ig_username} AS ig_username, {public_id} AS public_id) FROM core.accounts

-- name: account_periods
SELECT * REPLACE (if(attribute = 'ig_username', {period_value}, value) AS value)
FROM core.account_periods

-- name: runs
-- The detail may be the words of the API.
SELECT * REPLACE (
    if(kind = 'backfill', '(hidden)', selection) AS selection, if(reason IS NULL, NULL, '(hidden)') AS reason,
    if(detail IS NULL, NULL, '(hidden)') AS detail
)
FROM core.runs

-- name: run_outcomes
-- The detail may be the words of the API.
SELECT * REPLACE (if(detail IS NULL, NULL, '(hidden)') AS detail) FROM core.run_outcomes

-- name: run_warnings
-- They name accounts in parentheses.
SELECT * REPLACE (regexp_replace(detail, ' \([^()]*\)', '', 'g') AS detail) FROM core.run_warnings

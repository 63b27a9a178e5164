-- name: find
-- Accounts with this id, name or public id, also removed ones, with what names them, or did, and names no other account.
WITH named AS (
    SELECT account_id, unnest([ig_username, public_id]) AS name FROM core.accounts
    UNION
    SELECT account_id, value FROM core.account_periods WHERE attribute = 'ig_username'
)
SELECT
    a.account_id,
    (
        SELECT list(n.name ORDER BY n.name <> a.ig_username, n.name) FROM named AS n
        WHERE n.account_id = a.account_id AND NOT EXISTS (
            FROM named AS o WHERE o.account_id <> n.account_id AND lower(o.name) = lower(n.name)
        )
    )
FROM core.accounts AS a
WHERE $1 IN ({names})

-- name: tables
-- The tables with rows of accounts.
SELECT table_name FROM duckdb_columns()
WHERE database_name = current_database() AND schema_name = 'core' AND column_name = 'account_id'
  AND table_name IN (SELECT table_name FROM duckdb_tables())
ORDER BY ALL

-- name: of_state
-- What the next publication brings again from the state, where it is redacted.
DELETE FROM core.runs;
DELETE FROM core.run_warnings;
DELETE FROM core.open_checkpoints

-- name: rejected
-- The condition for rejected records, which may not show whose they are, or be a whole page. A name alone does not show
-- it in a record that has an id.
regexp_matches(payload, {in_record}, 'i')
OR (
    account_id = '' AND regexp_matches(payload, {named}, 'i')
    AND NOT regexp_matches(payload, '[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}', 'i')
)

-- Every field received that the API's contract does not specify, and the column that holds it; and the paths that are
-- read for mapped columns.
-- key: resource, path
WITH gh_mapping AS (
    SELECT from_json(mapping, '{
        "media_id": ["VARCHAR"],
        "columns": [{"column": "VARCHAR", "reading": "VARCHAR", "paths": ["VARCHAR"]}],
        "child_columns": [{"column": "VARCHAR", "reading": "VARCHAR", "paths": ["VARCHAR"]}]
    }') AS gh_read
    FROM core.warehouse
),
gh_column AS (
    SELECT 'media' AS resource, {'column': 'media_id', 'reading': 'text', 'paths': gh_read.media_id} AS gh_one
    FROM gh_mapping
    UNION ALL
    SELECT 'media', unnest(gh_read.columns) FROM gh_mapping
    UNION ALL
    SELECT 'media_children', unnest(gh_read.child_columns) FROM gh_mapping
),
gh_mapped AS (
    SELECT
        resource, unnest(gh_one.paths) AS path, gh_one."column" AS column_name,
        CASE gh_one.reading
            WHEN 'text' THEN 'VARCHAR'
            WHEN 'count' THEN 'BIGINT'
            WHEN 'number' THEN 'DOUBLE'
            WHEN 'flag' THEN 'BOOLEAN'
            ELSE 'TIMESTAMP WITH TIME ZONE'
        END AS column_type
    FROM gh_column
),
gh_field AS (
    FROM core.fields
    UNION ALL BY NAME
    FROM gh_mapped ANTI JOIN core.fields USING (resource, path)
)
SELECT
    gh_field.resource,  -- Where it was found: media, a list of items such as media_children, account, account_page or
                        -- media_page.
    gh_field.path,  -- Path of the field; for media a JSON Pointer, as in raw_media.payload ->> path.
    gh_field.column_name,  -- The column that holds it; NULL if it has none.
    gh_field.column_type AS type,  -- The column's type; NULL if it has no column.
    gh_field.first_seen_at,  -- When the field was first received; NULL for a path of a mapped column.
    gh_field.last_type_change_at,  -- When a value of a new type was last found there; NULL while all values have one
                                   -- type.
    gh_count.items[[gh_field.resource, gh_field.path]]
        AS items  -- Number of items that have it in this snapshot; NULL if it cannot be counted.
FROM gh_field
CROSS JOIN ({counts}) AS gh_count
ORDER BY gh_field.resource, gh_field.ordinal, gh_field.path

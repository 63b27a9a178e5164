-- Every field received that the API's contract does not specify, and the column that holds it; and the paths that are
-- read for mapped columns.
-- key: resource, path
WITH gh_mapped (resource, path, column_name, column_type) AS ({mapped}),
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

-- name: elements
-- The elements of the list of each item, from its JSON text.
SELECT * EXCLUDE (elements), unnest(elements) AS element,
    (generate_subscripts(elements, 1) - 1)::INTEGER AS position
FROM (
    SELECT
        account_id, surface, media_id, run_seq,
        CASE WHEN json_valid({list}) AND json_type({list}) = 'ARRAY' THEN from_json({list}, '["JSON"]') END AS elements
    FROM core.media
)

-- name: list
-- The view of a list for which no view is declared.
SELECT gh_row.account_id, gh_row.surface, gh_row.media_id, gh_row.position, gh_row.run_seq{inferred}
FROM ({elements}) AS gh_row

-- name: counts
-- The number of items of each field, as one map of resource and path: one value that is joined to every field, because
-- DuckDB does not compute it then unless the column `items` is selected.
SELECT map_from_entries([{entries}])::MAP(VARCHAR[], BIGINT) AS items FROM core.media

-- The registry of fields. Writes nothing.
SELECT resource, path, column_name, kinds, is_count, ordinal, first_seen_at, last_type_change_at
FROM core.fields
ORDER BY resource, ordinal

-- Writes core.fields.
MERGE INTO core.fields AS f
USING registered AS r
ON f.resource = r.resource AND f.path = r.path
WHEN MATCHED THEN UPDATE SET column_type = r.column_type, kinds = r.kinds, is_count = r.is_count, last_type_change_at = r.last_type_change_at
WHEN NOT MATCHED THEN INSERT BY NAME

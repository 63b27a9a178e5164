-- Everything up to this landing is merged. The first mapping stays in force until a rebuild. Writes core.warehouse.
UPDATE core.warehouse SET
    merged_seq = ?, raw_seq = coalesce(?, raw_seq), mapping = coalesce(mapping, ?),
    content_rule = coalesce(content_rule, ?)

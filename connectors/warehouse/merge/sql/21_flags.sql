-- What the merge decides by, one row for each time that an item was listed; `row` is -1 if none is stored. Writes nothing.
SELECT n, coalesce(row, -1) AS row, is_new, is_content, is_changed, is_last, is_same_id, is_missed, is_removed
FROM listed
ORDER BY n

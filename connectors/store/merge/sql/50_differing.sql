-- The columns that differ in items that did not change: addresses, and what the mapping ignores. Writes nothing.
SELECT list_filter([{differing}], lambda name: name IS NOT NULL)
FROM unchanged AS u JOIN listed AS l ON l.n = u.n JOIN core.media AS m ON m.rowid = u.row

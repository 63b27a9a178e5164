-- The assignments of columns that differ in items that did not change: addresses, and what the mapping ignores. Writes nothing.
SELECT list_filter([{differing}], lambda each: each IS NOT NULL)
FROM unchanged AS u JOIN batch AS b ON b.n = u.n JOIN core.media AS m ON m.rowid = u.row

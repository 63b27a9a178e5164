-- Finds the closed scans that may have missed an item. Writes no table.
--
-- Most full scans see every present row, and then no ids need be compared. Rows are identified by their rowid before the
-- merge. Recent scans do not read all rows, so their ids are always compared, which takes about 5 % of a run; to avoid
-- that, every merge would have to read the times of all rows.
CREATE OR REPLACE TEMP TABLE scans_with_unseen AS
WITH item_scans AS (FROM finished WHERE resource = '{resource}'),
seen AS (
    SELECT scan_id, stored FROM sightings WHERE stored IS NOT NULL
    UNION ALL
    SELECT b.scan_id, p.stored
    FROM ops.seen AS b
    SEMI JOIN item_scans USING (scan_id)
    JOIN stored_items AS p USING (account_id, surface, media_id)
),
with_unseen AS (
    SELECT w.scan_id
    FROM item_scans AS w
    JOIN stored_items AS p USING (account_id, surface)
    ANTI JOIN seen USING (scan_id, stored)
    WHERE p.removed_at IS NULL
    UNION ALL
    -- Items that another scan added or returned in this batch before this scan began are not among these rows.
    SELECT w.scan_id FROM item_scans AS w JOIN pages AS p USING (resource, account_id, surface)
    WHERE p.seq < w.began_seq
)
FROM item_scans SEMI JOIN with_unseen USING (scan_id);

SELECT count(*) FROM scans_with_unseen;

-- Writes core.events: items that were removed and are listed again.
INSERT INTO core.events BY NAME
SELECT
    m.account_id, m.surface, m.media_id, 'returned' AS event, s.first_at AS changed_at, s.first_run_seq AS run_seq
FROM sighted AS s
JOIN core.media AS m ON m.rowid = s.row
WHERE s.is_removed
ORDER BY s.first_seq

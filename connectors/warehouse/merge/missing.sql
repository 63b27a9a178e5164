-- Remembers the missed items that another scan must confirm. Writes ops.missing.
DELETE FROM ops.missing AS m USING missed_items AS x
WHERE m.account_id = x.account_id AND m.surface = x.surface AND m.media_id = x.media_id;

INSERT INTO ops.missing BY NAME
SELECT account_id, surface, media_id, missing_since, last_seen_at FROM missed_items WHERE removal IS NULL;

UPDATE finished SET is_undecided = true WHERE scan_id IN (SELECT scan_id FROM missed_items WHERE has_rejected);

-- Clears what scans missed: any sighting does. An item that was removed is present again. Writes core.media.
UPDATE core.media SET
    present_seq = if(media.removed_at IS NULL, media.present_seq, s.first_seq),
    missed_at = NULL, confirmed_by = NULL, removed_at = NULL, removal = NULL
FROM sighted AS s
WHERE media.rowid = s.row AND s.is_missed AND NOT s.is_replaced

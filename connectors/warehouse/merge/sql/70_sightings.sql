-- Updates when the items whose rows are kept were last seen. All of these columns have a fixed width, so that the
-- file does not grow. Writes core.media.
UPDATE core.media SET seen_seq = s.seq, last_seen_at = s.received_at
FROM sighted AS s
WHERE media.rowid = s.row AND NOT s.is_replaced

-- Marks the missed items. The removal of those that are confirmed is decided when the run ends. Writes core.media.
UPDATE core.media SET
    missed_at = coalesce(media.missed_at, x.closed_at),
    confirmed_by = if(x.is_confirmed, x.run_seq, media.confirmed_by),
    removed_at = if(x.is_expired, x.closed_at, NULL),
    removal = if(x.is_expired, 'expired', NULL),
    run_seq = if(x.is_expired, x.run_seq, media.run_seq)
FROM missed AS x
WHERE media.rowid = x.row AND x.decides

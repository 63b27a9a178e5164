-- The items whose content changed: as stored, and each time that they were listed. Writes nothing.
SELECT
    false AS is_content, true AS is_changed, -1 AS n, m.account_id, m.surface, m.media_id,
    m.content_changed_at AS received_at, m.run_seq, m.raw_landed, m.raw_position, m.overflow, {stored}
FROM core.media AS m
WHERE m.rowid IN (SELECT row FROM listed WHERE is_content)
UNION ALL BY NAME
SELECT
    l.is_content, l.is_changed, l.n, l.account_id, l.surface, l.media_id, l.received_at, l.run_seq,
    l.seq AS raw_landed, l.position AS raw_position, b.overflow, {typed}
FROM listed AS l
JOIN batch AS b ON b.n = l.n
WHERE l.item IN (SELECT item FROM listed WHERE is_content AND NOT is_new)
ORDER BY account_id, surface, media_id, n

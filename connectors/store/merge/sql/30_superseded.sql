-- The items whose content changed: as stored, and each time that they were listed. Writes nothing.
SELECT
    false AS is_content, true AS is_changed, -1 AS n, m.account_id, m.surface, m.media_id,
    m.content_changed_at AS received_at, m.run_seq, m.raw_landed, m.raw_position, m.overflow, {stored}
FROM core.media AS m
WHERE m.rowid IN (SELECT row FROM listed WHERE is_content)
UNION ALL BY NAME
SELECT
    is_content, is_changed, n, account_id, surface, media_id, received_at, run_seq,
    seq AS raw_landed, position AS raw_position, overflow, {columns}
FROM listed
WHERE (account_id, surface, media_id) IN (SELECT (account_id, surface, media_id) FROM listed WHERE is_content AND NOT is_new)
ORDER BY account_id, surface, media_id, n

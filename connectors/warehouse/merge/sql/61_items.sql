-- Writes new items, and those that changed, as they were listed last. `changed` and `content` are the listings with the
-- last change, and the last one of content.
INSERT INTO core.media BY NAME
WITH told AS (
    SELECT item, max(n) FILTER (is_changed) AS changed, max(n) FILTER (is_content) AS content
    FROM listed
    GROUP BY item
)
SELECT
    l.account_id, l.surface, l.media_id, {typed}, b.overflow, l.content_hash, l.payload_hash,
    changed.seq AS raw_landed, changed.position AS raw_position,
    if(first.row IS NULL, first.received_at, first.first_seen_at) AS first_seen_at,
    if(first.row IS NULL, first.run_seq, first.first_run_seq) AS first_run_seq,
    changed.received_at AS changed_at, coalesce(content.received_at, l.content_changed_at) AS content_changed_at,
    changed.run_seq, l.seq AS seen_seq,
    if(first.row IS NULL OR first.is_removed, first.seq, first.present_seq) AS present_seq,
    l.received_at AS last_seen_at
FROM told AS t
JOIN listed AS l ON l.item = t.item AND l.is_last
JOIN batch AS b ON b.n = l.n
JOIN listed AS first ON first.n = t.item
JOIN listed AS changed ON changed.n = t.changed
LEFT JOIN listed AS content ON content.n = t.content
ORDER BY l.account_id, l.surface, b.published_at DESC

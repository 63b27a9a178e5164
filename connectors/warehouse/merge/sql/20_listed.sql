-- The other items, each time that they were listed, and what became of them; their values stay in `batch`. Writes nothing.
--
-- `item` is the number of an item's first listing in the batch, and `row` its stored row. `before` and `content_before`
-- are of the time before: the item as it was listed earlier in the batch, or as it is stored. `is_changed`: new, or its
-- content or a count changed; its bytes go to the raw store. `is_same_id`: the scan has listed this id before, with
-- another time or permalink. `is_last`: as it is now.
CREATE OR REPLACE TEMP TABLE listed AS
WITH listings AS (
    SELECT
        b.n, first_value(b.n) OVER item AS item, lag(b.n) OVER item AS n_before, lead(b.n) OVER item IS NULL AS is_last
    FROM batch AS b
    JOIN arrived AS a ON a.n = b.n
    WINDOW item AS (PARTITION BY a.account_id, a.surface, b.media_id ORDER BY b.n)
),
earlier AS (
    SELECT i.n, a.seq, b.content_hash, b.published_at, b.permalink, {{{counts}}} AS earlier_counts
    FROM listings AS i
    JOIN batch AS b ON b.n = i.n
    JOIN arrived AS a ON a.n = i.n
    WHERE NOT i.is_last
)
SELECT
    a.*, i.item, i.is_last, b.media_id, b.content_hash,
    m.rowid AS row, m.present_seq, m.first_seen_at, m.first_run_seq, m.content_changed_at,
    coalesce(m.missed_at IS NOT NULL, false) AS is_missed, coalesce(m.removed_at IS NOT NULL, false) AS is_removed,
    {{{counts}}} AS counts,
    if(e.n IS NULL, {{{stored_counts}}}, e.earlier_counts) AS before,
    if(e.n IS NULL, m.content_hash, e.content_hash) AS content_before,
    coalesce(
        if(e.n IS NULL, m.seen_seq, e.seq) >= a.began_seq
        AND (if(e.n IS NULL, m.published_at, e.published_at) IS DISTINCT FROM b.published_at
            OR if(e.n IS NULL, m.permalink, e.permalink) IS DISTINCT FROM b.permalink),
        false
    ) AS is_same_id,
    m.rowid IS NULL AND e.n IS NULL AS is_new,
    b.content_hash IS DISTINCT FROM content_before AS is_content,
    is_content OR before IS DISTINCT FROM counts AS is_changed
FROM batch AS b
JOIN arrived AS a ON a.n = b.n
JOIN listings AS i ON i.n = b.n
LEFT JOIN earlier AS e ON e.n = i.n_before
LEFT JOIN core.media AS m ON m.account_id = a.account_id AND m.surface = a.surface AND m.media_id = b.media_id

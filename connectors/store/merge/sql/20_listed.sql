-- The other items, each time that they were listed, and what became of them. Writes nothing.
--
-- `row` is the stored row; `before`, `content_before` and so on are of the time before: the item as it was listed
-- earlier in the batch, or as it is stored. `is_changed`: new, or its content or a count changed; its bytes go to the raw
-- store. `is_same_id`: the scan has listed this id before, with another time or permalink. `is_last`: as it is now.
CREATE OR REPLACE TEMP TABLE listed AS
WITH typed AS (
    SELECT
        a.*, b.media_id, b.content_hash, b.overflow, {typed}, {{{counts}}} AS counts,
        m.rowid AS row, {{{stored_counts}}} AS stored_counts,
        m.content_hash AS stored_hash, m.published_at AS stored_time, m.permalink AS stored_permalink,
        m.seen_seq, m.present_seq, m.first_seen_at, m.first_run_seq, m.changed_at, m.content_changed_at,
        m.run_seq AS stored_run_seq, m.raw_landed, m.raw_position,
        coalesce(m.missed_at IS NOT NULL, false) AS is_missed, coalesce(m.removed_at IS NOT NULL, false) AS is_removed
    FROM batch AS b
    JOIN arrived AS a ON a.n = b.n
    LEFT JOIN core.media AS m
        ON m.account_id = a.account_id AND m.surface = a.surface AND m.media_id = b.media_id
),
ordered AS (
    SELECT
        *,
        row_number() OVER item AS listing,
        lead(n) OVER item IS NULL AS is_last,
        if(listing = 1, stored_counts, lag(counts) OVER item) AS before,
        if(listing = 1, stored_hash, lag(content_hash) OVER item) AS content_before,
        if(listing = 1, seen_seq, lag(seq) OVER item) >= began_seq
            AND (if(listing = 1, stored_time, lag(published_at) OVER item) IS DISTINCT FROM published_at
                OR if(listing = 1, stored_permalink, lag(permalink) OVER item) IS DISTINCT FROM permalink)
            AS is_same_id
    FROM typed
    WINDOW item AS (PARTITION BY account_id, surface, media_id ORDER BY n)
)
SELECT
    * EXCLUDE (stored_counts, stored_hash, stored_time, stored_permalink, is_same_id),
    coalesce(is_same_id, false) AS is_same_id,
    row IS NULL AND listing = 1 AS is_new,
    content_hash IS DISTINCT FROM content_before AS is_content,
    is_content OR before IS DISTINCT FROM counts AS is_changed
FROM ordered

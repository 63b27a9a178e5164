-- Writes new items, and those that changed, as they were listed last.
INSERT INTO core.media BY NAME
WITH told AS (
    SELECT
        *,
        first_value(if(row IS NULL, received_at, first_seen_at)) OVER item AS first_at,
        first_value(if(row IS NULL, run_seq, first_run_seq)) OVER item AS first_by,
        first_value(if(row IS NULL OR is_removed, seq, present_seq)) OVER item AS present_from,
        last_value(if(is_changed, received_at, NULL) IGNORE NULLS) OVER item AS last_changed_at,
        last_value(if(is_content, received_at, NULL) IGNORE NULLS) OVER item AS last_content_at,
        last_value(if(is_changed, run_seq, NULL) IGNORE NULLS) OVER item AS changed_by,
        last_value(if(is_changed, seq, NULL) IGNORE NULLS) OVER item AS landed,
        last_value(if(is_changed, position, NULL) IGNORE NULLS) OVER item AS placed
    FROM listed
    WINDOW item AS (
        PARTITION BY account_id, surface, media_id ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
    QUALIFY is_last AND last_changed_at IS NOT NULL
)
SELECT
    account_id, surface, media_id, {columns}, overflow, content_hash, payload_hash,
    landed AS raw_landed, placed AS raw_position, first_at AS first_seen_at, first_by AS first_run_seq,
    last_changed_at AS changed_at, coalesce(last_content_at, content_changed_at) AS content_changed_at,
    changed_by AS run_seq, seq AS seen_seq, present_from AS present_seq, received_at AS last_seen_at
FROM told
ORDER BY account_id, surface, published_at DESC

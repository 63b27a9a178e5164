-- The items that a closed scan has seen, the newest ones of each partition. Those that an open scan found are not among
-- them: no scan has read from them down to known items yet.
SELECT m.account_id, m.surface, arg_max(m.media_id, m.published_at, $5)
FROM core.media AS m
JOIN (
    SELECT unnest($1::VARCHAR[]) AS account_id, unnest($2::VARCHAR[]) AS surface, unnest($3::BIGINT[]) AS seq
) AS w ON w.account_id = m.account_id AND w.surface = m.surface
WHERE m.removed_at IS NULL AND m.present_seq <= w.seq AND m.published_at < $4
GROUP BY m.account_id, m.surface

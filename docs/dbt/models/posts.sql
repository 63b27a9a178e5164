-- Posts that are not removed, with the status of their account and the number of versions of their content.
SELECT
    m.account_id,
    m.media_id,
    m.ig_username,
    a.status AS account_status,
    m.published_at,
    m.like_count,
    m.comments_count,
    count(h.valid_from) AS versions
FROM {{ source('gramhouse', 'media') }} AS m
JOIN {{ source('gramhouse', 'accounts') }} AS a USING (account_id)
LEFT JOIN {{ source('gramhouse', 'media_history') }} AS h USING (account_id, surface, media_id)
WHERE m.surface = 'posts' AND m.removed_at IS NULL
GROUP BY ALL

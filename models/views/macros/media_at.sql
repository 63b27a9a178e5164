-- The items that were listed at a time, with their content and counts of then, one row each:
-- FROM media_at('2026-11-23 08:00:00+00'). A date is its midnight. USE an attached snapshot first. Addresses
-- in fields other than permalink have no history: they are NULL, unless the content has not changed since.
-- key: account_id, surface, media_id
-- join: accounts by account_id
WITH gh_count AS (
    SELECT account_id, surface, media_id, map_from_entries(list((metric, value))) AS counts
    FROM (
        SELECT account_id, surface, media_id, metric, arg_max_null(value, (observed_at, rowid)) AS value
        FROM core.media_counts
        WHERE observed_at <= t::TIMESTAMPTZ
        GROUP BY account_id, surface, media_id, metric
    )
    GROUP BY account_id, surface, media_id
),
gh_event AS (
    SELECT account_id, surface, media_id, arg_max(event, changed_at) AS event
    FROM core.events
    WHERE changed_at <= t::TIMESTAMPTZ
    GROUP BY account_id, surface, media_id
)
SELECT
    gh_row.account_id,  -- The account's id, a UUID in lower case.
    gh_row.surface,  -- Where the item was listed, such as posts or stories.
    gh_row.media_id,  -- The item's id, always text.
    gh_row.ig_username,  -- The account's current name on the social network; accounts_at has that of then.
    gh_row.media_type,  -- Kind of media as the API names it, such as IMAGE, VIDEO, CAROUSEL_ALBUM.
    {kind} AS kind,  -- image, video, carousel or reel, from media_type and similar fields; NULL if they do not say it.
    gh_row.caption,  -- The caption as published.
    gh_row.permalink,  -- URL of the item on the social network.
    gh_row.published_at,  -- When the item was published.
    gh_count.counts['like_count'] AS like_count,  -- Likes when last seen; NULL if the API sent none.
    gh_count.counts['comments_count'] AS comments_count,  -- Comments when last seen; NULL if the API sent none.
    gh_item.first_seen_at,  -- When a sync first saw it.
    gh_row.valid_from AS content_changed_at  -- When its content, without counts, had last changed.
    {inferred}
FROM main.media_history AS gh_row
JOIN core.media AS gh_item USING (account_id, surface, media_id)
LEFT JOIN gh_count USING (account_id, surface, media_id)
LEFT JOIN gh_event USING (account_id, surface, media_id)
WHERE gh_row.valid_from <= t::TIMESTAMPTZ AND coalesce(gh_row.valid_to > t::TIMESTAMPTZ, true)
  AND coalesce(gh_event.event = 'returned', true)

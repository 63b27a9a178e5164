-- All items, removed ones included. Each dbt run loads only the items that changed since the one before: `run_seq` is the
-- number of the sync that changed a row, and these numbers never decrease. `>=`, because a rebuild attributes items that
-- it imports from quarantine to the last sync. `ig_username`, `media_url` and `last_seen_at` are left out: they change
-- without `run_seq`; join `accounts` for the name. The hook deletes accounts that `gramhouse forget` erased.
{{ config(
    materialized='incremental',
    incremental_strategy='delete+insert',
    unique_key=['account_id', 'surface', 'media_id'],
    post_hook="DELETE FROM {{ this }} WHERE account_id NOT IN (SELECT account_id FROM {{ source('gramhouse', 'accounts') }})"
) }}
SELECT
    account_id,
    surface,
    media_id,
    media_type,
    caption,
    permalink,
    published_at,
    like_count,
    comments_count,
    first_seen_at,
    changed_at,
    content_changed_at,
    removed_at,
    removal,
    run_seq
FROM {{ source('gramhouse', 'media') }}
{% if is_incremental() %}
WHERE run_seq >= (SELECT coalesce(max(run_seq), 0) FROM {{ this }})
{% endif %}

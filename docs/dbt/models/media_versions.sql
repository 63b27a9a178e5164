-- Every version of the content of all items. Each dbt run loads all versions of the items of which one has changed since
-- the run before (see media_items).
{{ config(
    materialized='incremental',
    incremental_strategy='delete+insert',
    unique_key=['account_id', 'surface', 'media_id'],
    post_hook="DELETE FROM {{ this }} WHERE account_id NOT IN (SELECT account_id FROM {{ source('gramhouse', 'accounts') }})"
) }}
SELECT account_id, surface, media_id, valid_from, valid_to, media_type, caption, permalink, published_at, run_seq
FROM {{ source('gramhouse', 'media_history') }}
{% if is_incremental() %}
WHERE (account_id, surface, media_id) IN (
    SELECT (account_id, surface, media_id) FROM {{ source('gramhouse', 'media_history') }}
    WHERE run_seq >= (SELECT coalesce(max(run_seq), 0) FROM {{ this }})
)
{% endif %}

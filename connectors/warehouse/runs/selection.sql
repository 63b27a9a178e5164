-- name: find
-- The accounts that each name stands for; an empty list if all of them were removed.
WITH named AS (
    SELECT account_id, removed_at, unnest([{names}]) AS name FROM {schema}accounts
)
SELECT name, coalesce(list(DISTINCT account_id) FILTER (removed_at IS NULL), []) AS listed
FROM named WHERE name IN (SELECT unnest(from_json($1, '["VARCHAR"]'))) GROUP BY name

-- name: choose
WITH surfaces AS (
    SELECT unnest(from_json($1, '["VARCHAR"]')) AS surface
),
present AS (
    SELECT account_id, ig_username, status = 'token_expired' AS expired
    FROM {schema}accounts WHERE removed_at IS NULL
),
whole AS (
    SELECT account_id FROM present WHERE $3::BOOLEAN
    UNION
    SELECT unnest(from_json($2, '["VARCHAR"]'))
    UNION
    SELECT account_id FROM {schema}account_status_history
    WHERE $4::TIMESTAMPTZ IS NOT NULL AND status = 'token_expired'
      AND (valid_to IS NULL OR valid_to >= $4::TIMESTAMPTZ)
),
wanted AS (
    SELECT account_id, surface FROM whole CROSS JOIN surfaces
    UNION
    SELECT account_id, surface FROM ({incomplete}) SEMI JOIN surfaces USING (surface)
    WHERE $5::BOOLEAN
),
known AS (
    SELECT account_id, surface, count(*) AS items
    FROM ({items}) SEMI JOIN wanted USING (account_id, surface)
    WHERE removed_at IS NULL
    GROUP BY account_id, surface
)
SELECT
    p.account_id, p.ig_username, p.expired, list(w.surface) AS surfaces,
    sum(CASE WHEN p.expired AND NOT $7::BOOLEAN THEN 0
             ELSE greatest(1, ceil(coalesce(k.items, 0) / $6::BIGINT)) END)::BIGINT AS pages
FROM present AS p
JOIN wanted AS w USING (account_id)
LEFT JOIN known AS k USING (account_id, surface)
GROUP BY p.account_id, p.ig_username, p.expired
ORDER BY p.ig_username, p.account_id

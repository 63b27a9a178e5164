-- name: find
-- An exact match of the id is preferred to one in another case, and that to a match of the username.
WITH typed AS (
    SELECT DISTINCT unnest(from_json($1, '["VARCHAR"]')) AS name
),
found AS (
    SELECT t.name, 1 AS rank, a.account_id, a.removed_at
    FROM typed AS t JOIN {schema}accounts AS a ON a.account_id = t.name
    UNION ALL
    SELECT t.name, 2, a.account_id, a.removed_at
    FROM typed AS t JOIN {schema}accounts AS a ON lower(a.account_id) = lower(t.name)
    UNION ALL
    SELECT t.name, 3, a.account_id, a.removed_at
    FROM typed AS t JOIN {schema}accounts AS a ON lower(a.ig_username) = lower(regexp_replace(t.name, '^@', ''))
),
best AS (
    SELECT name, account_id, removed_at FROM found QUALIFY rank = min(rank) OVER (PARTITION BY name)
)
SELECT name, list(account_id) FILTER (removed_at IS NULL) AS listed FROM best GROUP BY name

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

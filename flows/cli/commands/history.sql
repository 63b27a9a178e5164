-- What runs found.

-- name: unreported
-- The first of the last run, and of unfinished runs before it.
SELECT coalesce(max(seq), 0) + 1 FROM reported WHERE seq < (SELECT max(seq) FROM runs)

-- name: since
SELECT min(seq) FROM runs WHERE started_at >= TIMESTAMPTZ '{at}'

-- name: runs
SELECT seq, run_id, kind, selection, state, started_at FROM runs
WHERE kind <> 'totals' AND seq >= getvariable('first_run')
ORDER BY seq DESC

-- name: counts
-- What is listed of items: as text, and the number; and the number of changes of accounts.
SELECT
    (SELECT count(*) FROM account_changes WHERE run_seq >= getvariable('first_run') AND account_id IN (FROM chosen))
        AS of_accounts,
    coalesce(string_agg(format('{:,} {}', items, change), ', ' ORDER BY change = 'counted', change), 'no changes of items')
        AS text,
    coalesce(sum(items), 0)::BIGINT AS total
FROM (
    SELECT change, count(*) AS items FROM changes
    WHERE run_seq >= getvariable('first_run') AND account_id IN (FROM chosen)
    GROUP BY change
)

-- name: changes
-- What only its counts changed of is the most, and comes last. `values` is a JSON object: by column or count, its values
-- before the run and after it.
WITH value AS (
    SELECT account_id, surface, media_id, run_seq, changed_at, changes, unnest(json_keys(changes)) AS name
    FROM item_events
    WHERE getvariable('with_values') AND run_seq >= getvariable('first_run') AND account_id IN (FROM chosen)
      AND event IN ('changed', 'counted')
),
of_run AS (
    SELECT
        account_id, surface, media_id, run_seq, name,
        arg_min_null(json_extract(changes, '$."' || name || '".old'), changed_at) AS old,
        arg_max_null(json_extract(changes, '$."' || name || '".new'), changed_at) AS new
    FROM value GROUP BY ALL
),
of_item AS (
    SELECT
        account_id, surface, media_id, run_seq,
        to_json(map_from_entries(list_sort(list((name, {'old': old, 'new': new})))))::VARCHAR AS values
    FROM of_run GROUP BY ALL
)
SELECT c.*, m.caption, m.permalink, if(c.change IN ('changed', 'counted', 'returned'), v.values, NULL) AS values
FROM changes AS c
LEFT JOIN of_item AS v USING (account_id, surface, media_id, run_seq)
LEFT JOIN media AS m USING (account_id, surface, media_id)
WHERE c.run_seq >= getvariable('first_run') AND c.account_id IN (FROM chosen)
ORDER BY c.run_seq DESC, c.change = 'counted', c.changed_at DESC, c.ig_username, c.surface, c.media_id, c.change
LIMIT getvariable('most') -- NULL: all.

-- name: account_changes
FROM account_changes
WHERE run_seq >= getvariable('first_run') AND account_id IN (FROM chosen)
ORDER BY run_seq DESC, changed_at DESC, ig_username, change
LIMIT getvariable('most')

-- What the snapshot knows of one item or one account. The parameters are its id, and the surface and media id of an item.

-- name: found
-- The second parameter is the name of an account.
SELECT account_id, ig_username, NULL AS surface, NULL AS media_id FROM accounts WHERE $2 IN ({names})
UNION ALL
SELECT account_id, ig_username, surface, media_id FROM media WHERE media_id = $1 OR permalink = $1
ORDER BY ALL

-- name: item
SELECT
    m.*, if(k.removed_at IS NULL, k.missed_at, NULL) AS missing_since, a.token_expired_since,
    a.removed_at AS account_removed_at
FROM media AS m
JOIN core.media AS k USING (account_id, surface, media_id)
LEFT JOIN accounts AS a USING (account_id)
WHERE m.account_id = $1 AND m.surface = $2 AND m.media_id = $3

-- name: events
SELECT changed_at AS "at", event, run_seq, run_id, changes, scans FROM item_events
WHERE account_id = $1 AND surface = $2 AND media_id = $3
ORDER BY changed_at, event NOT IN ('new', 'returned'), event

-- name: received
SELECT r.seen_at AS "at", 'received' AS event, s.seq AS run_seq, r.run_id, r.correlation_id, r.payload
FROM raw_versions AS r LEFT JOIN runs AS s USING (run_id)
WHERE r.account_id = $1 AND r.surface = $2 AND r.media_id = $3 ORDER BY r.landed, r.position

-- name: account
SELECT * FROM accounts WHERE account_id = $1

-- name: surfaces
SELECT
    f.surface, f.complete_at, f.recent_at, f.outcome, f.error_code, f.resume_after, f.last_tried_at, f.is_stale,
    f.items_missing, f.item_order, f.full_due_at, f.due_at, f.due_reason, f.gap_since, g.pages AS gap_pages
FROM freshness AS f LEFT JOIN gaps AS g USING (account_id, surface)
WHERE f.account_id = $1 ORDER BY f.surface

-- name: account_events
-- Without scans that ended like the one before.
SELECT changed_at AS "at", change AS event, run_seq, run_id, old_ig_username AS old, new_ig_username AS new
FROM account_changes WHERE account_id = $1
UNION ALL BY NAME
SELECT
    o.ended_at AS "at", 'scan' AS event, r.seq AS run_seq, o.run_id, o.surface, o.outcome, o.pages, o.items, o.error_code,
    o.detail, o.correlation_id
FROM run_outcomes AS o LEFT JOIN runs AS r USING (run_id)
WHERE o.account_id = $1
QUALIFY (o.outcome, o.error_code)
    IS DISTINCT FROM lag((o.outcome, o.error_code)) OVER (PARTITION BY o.surface ORDER BY r.seq, o.ended_at)
ORDER BY "at", event, surface

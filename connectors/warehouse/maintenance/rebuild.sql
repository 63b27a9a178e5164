-- name: recounted
CREATE OR REPLACE TEMP TABLE recounted AS FROM {metrics} LIMIT 0

-- name: recount
-- The counts of some items that differ from those observed last.
INSERT INTO recounted BY NAME
WITH present AS (
    SELECT
        account_id, surface, media_id, run_seq, changed_at AS observed_at, unnest({metric_names}) AS metric,
        unnest(_counts) AS value
    FROM (SELECT *, {metric_values} AS _counts FROM {items} AS m WHERE {some})
),
observed AS (FROM {metrics} WHERE {some}),
-- Two rows for an item that occurs twice on a page.
last AS (
    SELECT account_id, surface, media_id, metric, value FROM observed
    SEMI JOIN (
        SELECT account_id, surface, media_id, metric, max(observed_at) AS observed_at FROM observed GROUP BY ALL
    ) AS latest USING (account_id, surface, media_id, metric, observed_at)
)
SELECT p.* FROM present AS p
ANTI JOIN last AS l
    ON l.account_id = p.account_id AND l.surface = p.surface AND l.media_id = p.media_id AND l.metric = p.metric
   AND l.value IS NOT DISTINCT FROM p.value
WHERE p.value IS NOT NULL
   OR (p.account_id, p.surface, p.media_id, p.metric) IN (SELECT (account_id, surface, media_id, metric) FROM last)

-- name: append
DELETE FROM {metrics} AS c USING recounted AS r
WHERE c.account_id = r.account_id AND c.surface = r.surface AND c.media_id = r.media_id AND c.metric = r.metric
  AND c.observed_at = r.observed_at;

INSERT INTO {metrics} BY NAME SELECT * FROM recounted ORDER BY ALL;

DROP TABLE temp.recounted

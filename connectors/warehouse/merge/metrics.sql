-- Appends the counts that changed. Writes {metrics}.
INSERT INTO {metrics} BY NAME
WITH counted AS (
    SELECT
        r.account_id, r.surface, r.media_id, r._order_key AS order_key, r._received_at AS observed_at,
        r._run_seq AS run_seq,
        {metric_values} AS counts
    FROM decoded AS r WHERE r._order_key NOT IN (SELECT order_key FROM unchanged)
    UNION ALL
    SELECT r.account_id, r.surface, r.media_id, -1, NULL, NULL, {metric_values}
    FROM {items} AS r JOIN changed AS c ON r.rowid = c.stored
),
compared AS (
    SELECT *, lag(counts) OVER (PARTITION BY account_id, surface, media_id ORDER BY order_key) AS counts_before
    FROM counted
)
SELECT * EXCLUDE (before) FROM (
    SELECT
        account_id, surface, media_id, observed_at, run_seq, unnest({metric_names}) AS metric, unnest(counts) AS value,
        unnest(coalesce(counts_before, {no_values})) AS before
    FROM compared WHERE order_key >= 0
)
WHERE value IS DISTINCT FROM before
ORDER BY account_id, surface, media_id, observed_at, metric;

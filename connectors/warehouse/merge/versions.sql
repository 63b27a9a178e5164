-- Appends the versions of content that the batch supersedes. Writes {versions}.
INSERT INTO {versions} BY NAME
WITH revised AS (
    SELECT account_id, surface, media_id FROM observed
    GROUP BY account_id, surface, media_id HAVING count(*) FILTER (begins_version) > 1
),
versioned AS (
    SELECT *, count(*) FILTER (begins_version) OVER (
        PARTITION BY account_id, surface, media_id ORDER BY order_key ROWS UNBOUNDED PRECEDING
    ) AS version
    FROM (FROM observed WHERE is_change OR order_key = -1) SEMI JOIN revised USING (account_id, surface, media_id)
),
versions AS (
    SELECT
        account_id, surface, media_id, version, arg_min(seen_at, order_key) AS valid_from, max(order_key) AS order_key,
        max(stored) AS stored, arg_min_null(run_seq, order_key) AS began_run_seq
    FROM versioned GROUP BY account_id, surface, media_id, version
),
closed AS (
    SELECT *, lead(valid_from) OVER item AS valid_to, lead(began_run_seq) OVER item AS run_seq
    FROM versions
    WINDOW item AS (PARTITION BY account_id, surface, media_id ORDER BY version)
    QUALIFY valid_to IS NOT NULL
)
SELECT * EXCLUDE (_version) FROM (
    SELECT
        c.account_id, c.surface, c.media_id, c.valid_from, c.valid_to, c.run_seq, c.version AS _version,
        r._order_key AS raw_landed{history_columns}
    FROM closed AS c JOIN decoded AS r ON r._order_key = c.order_key
    UNION ALL
    SELECT
        c.account_id, c.surface, c.media_id, c.valid_from, c.valid_to, c.run_seq, c.version,
        r.raw_landed{history_columns}
    FROM closed AS c JOIN {items} AS r ON r.rowid = c.stored WHERE c.order_key = -1
)
ORDER BY account_id, surface, media_id, _version;

-- Decides which items changed. Writes no table.

-- Each observation of an item, compared with the one before it. Only the first is compared with the stored row, so the
-- result does not depend on how the pages were divided into merges. The first one of an item that is not stored is a
-- change. The `run_seq` of the stored row is that of the run that first saw the item.
CREATE OR REPLACE TEMP TABLE observed AS
WITH of_children AS (
    -- Hashed once more: a row's hash is that of its values XOR that of its position, so without this, the sum of all rows
    -- would not tell which value is at which position.
    SELECT
        order_key, account_id, surface, media_id, bit_xor(hash(content)) AS content, bit_xor(hash(counts)) AS counts
    FROM child_hashes GROUP BY order_key, account_id, surface, media_id
),
hashed AS (
    SELECT
        r._order_key AS order_key, r.account_id, r.surface, r.media_id, NULL::BIGINT AS stored,
        r._received_at AS seen_at, r._run_seq AS run_seq, r.payload_hash, {content} AS content, {counts} AS counts
    FROM decoded AS r LEFT JOIN of_children AS c ON c.order_key = r._order_key
    UNION ALL
    SELECT
        -1, r.account_id, r.surface, r.media_id, s.stored, r.content_changed_at, r.first_run_seq, r.payload_hash,
        {content}, {counts}
    FROM {items} AS r
    JOIN (SELECT DISTINCT stored FROM compared WHERE stored IS NOT NULL) AS s ON r.rowid = s.stored
    LEFT JOIN of_children AS c
        ON c.order_key = -1 AND c.account_id = r.account_id AND c.surface = r.surface AND c.media_id = r.media_id
)
SELECT
    order_key, account_id, surface, media_id, stored, seen_at, run_seq, payload_hash,
    row_number() OVER item = 1 AS is_first,
    order_key >= 0 AND (is_first OR content <> lag(content) OVER item OR counts <> lag(counts) OVER item) AS is_change,
    is_first OR content <> lag(content) OVER item AS begins_version
FROM hashed
WINDOW item AS (PARTITION BY account_id, surface, media_id ORDER BY order_key);

INSERT INTO unchanged SELECT order_key FROM observed WHERE order_key >= 0 AND NOT is_change;

-- The changed items: their row is written with the values of the last observation, which are equal to those of the last
-- change, but may be spelled differently.
CREATE OR REPLACE TEMP TABLE changed AS
WITH items AS (
    SELECT
        account_id, surface, media_id, max(stored) AS stored,
        arg_min(seen_at, order_key) FILTER (order_key >= 0) AS first_received_at,
        arg_max(seen_at, order_key) FILTER (is_change) AS changed_at,
        arg_max(seen_at, order_key) FILTER (begins_version) AS content_changed_at,
        max(order_key) FILTER (is_change) AS order_key,
        max(order_key) AS last_order_key,
        arg_min_null(run_seq, order_key) AS first_run_seq,
        arg_max_null(run_seq, order_key) FILTER (is_change) AS run_seq
    FROM observed GROUP BY account_id, surface, media_id HAVING bool_or(is_change)
)
SELECT i.*, coalesce(s.first_seen_at, i.first_received_at) AS first_seen_at
FROM items AS i LEFT JOIN stored_items AS s ON s.stored = i.stored;

-- Stored items whose bytes differ, but neither their content nor their counts: usually only the signatures of URLs.
CREATE OR REPLACE TEMP TABLE respelled AS
SELECT account_id, surface, media_id, max(stored) AS stored, max(order_key) AS order_key
FROM observed GROUP BY account_id, surface, media_id
HAVING NOT bool_or(is_change)
   AND arg_max(payload_hash, order_key) IS DISTINCT FROM max(payload_hash) FILTER (order_key = -1);

SELECT
    (SELECT count(*) FROM changed) AS changed,
    (SELECT count(*) FROM respelled) AS respelled,
    count(*) FILTER (begins_version AND NOT is_first) AS new_versions
FROM observed;

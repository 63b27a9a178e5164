-- Replaces the rows of changed items. Writes {items}.
DELETE FROM {items} WHERE rowid IN (SELECT stored FROM changed);

INSERT INTO {items} BY NAME
SELECT
    i.account_id, i.surface, i.media_id{media_columns}, r.payload_hash, i.order_key AS raw_landed, r.overflow,
    i.first_seen_at, i.changed_at AS written_at, i.order_key >> {position_bits} AS written_seq, i.changed_at,
    i.content_changed_at, NULL::TIMESTAMPTZ AS removed_at, NULL::VARCHAR AS removal, i.run_seq,
    i.first_run_seq
FROM changed AS i JOIN decoded AS r ON r._order_key = i.last_order_key
ORDER BY i.account_id, i.surface, r.published_at;

-- The first observation of an item adds or returns it; every later one that differs is a change.
INSERT INTO run_numbers
SELECT p.run_id, e.what, count(*)
FROM (
    SELECT first_order_key AS order_key, 'added' AS what FROM changed WHERE stored IS NULL
    UNION ALL
    SELECT order_key, 'changed' FROM observed
    WHERE is_change AND order_key NOT IN (SELECT first_order_key FROM changed WHERE first_order_key IS NOT NULL)
) AS e
JOIN pages AS p ON p.seq = e.order_key >> {position_bits}
GROUP BY p.run_id, e.what;

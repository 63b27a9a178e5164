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

-- The first observation of an item that is not stored adds it; every other one that differs is a change.
INSERT INTO run_numbers
SELECT p.run_id, if(o.is_first, 'added', 'changed') AS what, count(*)
FROM observed AS o JOIN pages AS p ON p.seq = o.order_key >> {position_bits}
WHERE o.is_change
GROUP BY p.run_id, what;

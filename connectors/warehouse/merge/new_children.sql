-- Appends the children of new items. Writes a child table.
INSERT INTO core.{table} BY NAME
SELECT n.account_id, n.surface, n.media_id, n.run_seq, c.* EXCLUDE (_order_key)
FROM {decoded} AS c JOIN new_items AS n ON n.order_key = c._order_key
ORDER BY n.account_id, n.surface, n.media_id, c.position;

-- Returns the bytes of new and changed items, for the raw store. They are not sorted: they are almost in the order of
-- landing already, and sorting would copy all payloads twice.
SELECT
    account_id, surface, media_id, received_at AS seen_at, run_id, correlation_id, order_key AS landed, payload
FROM media_cells
WHERE media_id IS NOT NULL AND order_key NOT IN (SELECT order_key FROM unchanged)

-- Finds items whose bytes are stored, and that the batch has with other bytes too: they are decoded, to be compared.
SELECT order_key FROM sightings
SEMI JOIN (
    SELECT account_id, surface, media_id FROM identified JOIN arrived_items USING (order_key)
) USING (account_id, surface, media_id)
ORDER BY order_key;

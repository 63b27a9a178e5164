-- Reads the values of items that may be unchanged. Writes no table.
CREATE OR REPLACE TEMP TABLE decoded AS
SELECT
    seq AS _seq, order_key AS _order_key, received_at AS _received_at, run_seq AS _run_seq, account_id, surface, media_id,
    payload_hash, overflow{decoded_columns}
FROM media_cells
WHERE order_key IN (SELECT order_key FROM compared);

-- Hashes of the rows of their children. The order key of stored rows is -1, here and in `observed`.
CREATE OR REPLACE TEMP TABLE child_hashes (
    order_key BIGINT, account_id VARCHAR, surface VARCHAR, media_id VARCHAR, content UBIGINT, counts UBIGINT
);

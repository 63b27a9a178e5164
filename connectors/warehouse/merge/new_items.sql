-- Appends items that are not stored and were observed once: their rows, and first counts. Writes {items}, {metrics}.
--
-- Reads cells_by_account: the decoded items, sorted by account.
CREATE OR REPLACE TEMP VIEW new_items AS
FROM cells_by_account
WHERE media_id IS NOT NULL AND order_key NOT IN (SELECT order_key FROM compared);

INSERT INTO {items} BY NAME
SELECT
    account_id, surface, media_id{decoded_columns}, payload_hash, order_key AS raw_landed, overflow,
    received_at AS first_seen_at, received_at AS written_at, seq AS written_seq, received_at AS changed_at,
    received_at AS content_changed_at, run_seq, run_seq AS first_run_seq
FROM new_items;

INSERT INTO {metrics} BY NAME
SELECT * FROM (
    SELECT
        account_id, surface, media_id, run_seq, unnest({metric_names}) AS metric, unnest({metric_values}) AS value,
        _received_at AS observed_at
    FROM (SELECT account_id, surface, media_id, run_seq, received_at AS _received_at{decoded_columns} FROM new_items) AS r
)
WHERE value IS NOT NULL;

INSERT INTO run_numbers SELECT run_id, 'added', count(*) FROM new_items GROUP BY run_id;

-- Writes core.closed_scans.
MERGE INTO core.closed_scans AS w
USING closed AS c
ON w.resource = c.resource AND w.account_id = c.account_id AND w.surface = c.surface
WHEN MATCHED THEN UPDATE SET
    seq = c.seq, began_seq = c.began_seq, complete_at = c.complete_at, recent_at = c.recent_at,
    covered_from = c.covered_from, pages = c.pages, items = c.items, order_proofs = c.order_proofs,
    item_order = c.item_order, order_broken_by = c.order_broken_by, full_share = c.full_share,
    removals_undecided_since = c.removals_undecided_since
WHEN NOT MATCHED THEN INSERT BY NAME

-- Replaces the last closed scans of partitions. Writes core.completed_scans.
DELETE FROM core.completed_scans AS s USING finished AS f
WHERE s.resource = f.resource AND s.account_id = f.account_id AND s.surface = f.surface;

-- A recent scan updates only the range that it covered. A full scan also decides whether the feed is in order. The share
-- of an account, a fraction in (0, 1], differs so that the next full scans are not all due on the same day.
INSERT INTO core.completed_scans BY NAME
WITH ordered AS (
    SELECT
        *,
        CASE
            WHEN is_recent THEN before.order_proofs
            WHEN read_to IS NULL AND order_broken_by IS NULL
                THEN coalesce(before.order_proofs, {proofs})
            WHEN order_broken_by IS NOT NULL THEN {proofs_again}
            ELSE greatest(coalesce(before.order_proofs, {proofs}) - 1, 0)
        END AS order_proofs
    FROM finished
)
SELECT
    resource, account_id, surface, seq, order_proofs,
    if(is_recent, before.scan_id, scan_id) AS scan_id,
    if(is_recent, before.complete_at, complete_at) AS complete_at,
    if(is_recent, complete_at, NULL) AS recent_at,
    covered_from,
    if(is_recent, before.pages, pages) AS pages,
    if(is_recent, before.items, items) AS items,
    CASE
        WHEN is_recent THEN before.item_order
        WHEN order_proofs = 0 AND read_to IS NOT NULL AND order_broken_by IS NULL THEN '{newest_first}'
    END AS item_order,
    if(is_recent, before.order_broken_by, order_broken_by) AS order_broken_by,
    if(
        is_recent, before.full_share,
        coalesce(full_share, (1 + ('0x' || md5(account_id)[1:8])::BIGINT) / 4294967296.0)
    ) AS full_share,
    CASE
        WHEN token_expired THEN before.removals_undecided_since
        WHEN is_undecided THEN coalesce(before.removals_undecided_since, complete_at)
        WHEN is_recent AND (account_id, surface) IN (
            SELECT (account_id, surface) FROM ops.missing WHERE missing_since IS NULL
        ) THEN before.removals_undecided_since
    END AS removals_undecided_since
FROM ordered;

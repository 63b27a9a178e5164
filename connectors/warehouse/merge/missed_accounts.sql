-- Finds the accounts that a closed scan of the catalogue did not list. Writes no table.
--
-- Reads finished: the closed scans of the batch.

-- `is_gone`: an earlier scan, which ended long enough before this one began, did not list the account either, or the
-- run has --accept-removals. An account that another scan has listed since this one began is not missing: it may be on
-- a page that this scan had passed already. An empty catalogue misses nothing, unless a person accepts that. A time
-- after the end of this scan is from a clock that was ahead, and is replaced.
CREATE OR REPLACE TEMP TABLE missed_accounts AS
SELECT
    a.account_id, f.run_id, r.seq AS run_seq, least(m.missing_since, f.complete_at) AS missing_since,
    coalesce(r.accept_removals, false) AS is_accepted,
    is_accepted
    OR coalesce(f.started_at >= m.missing_since + INTERVAL {confirm_accounts_after_hours} HOUR, false) AS is_gone
FROM core.accounts AS a
JOIN finished AS f ON f.resource = 'accounts' AND a.removed_at IS NULL AND a.seen_seq < f.began_seq
LEFT JOIN core.runs AS r ON r.run_id = f.run_id
LEFT JOIN ops.missing_accounts AS m ON m.account_id = a.account_id
WHERE is_accepted OR EXISTS (FROM core.accounts AS listed WHERE listed.seen_seq >= f.began_seq);

-- name: known_accounts
-- The accounts that the batch lists, with their periods as a list, oldest first. Writes nothing.
SELECT a.*, (SELECT list(p ORDER BY p.seq, p.valid_from) FROM core.account_periods AS p WHERE p.account_id = a.account_id) AS periods
FROM core.accounts AS a
WHERE a.account_id IN (SELECT unnest(?::VARCHAR[]))

-- name: accounts
-- Writes core.accounts.
MERGE INTO core.accounts AS a
USING listed_accounts AS l
ON a.account_id = l.account_id
WHEN MATCHED THEN UPDATE SET
    listed_as = l.listed_as, ig_username = l.ig_username, public_id = l.public_id, status = l.status, status_since = l.status_since,
    run_seq = l.run_seq, first_seen_at = l.first_seen_at, seen_seq = l.seen_seq, present_seq = l.present_seq,
    last_seen_at = l.last_seen_at, missed_at = NULL, confirmed_by = NULL, removed_at = NULL, removal = NULL
WHEN NOT MATCHED THEN INSERT BY NAME

-- name: periods
-- Replaces the periods of the accounts whose status or name changed. Writes core.account_periods.
DELETE FROM core.account_periods WHERE account_id IN (SELECT account_id FROM periods);
INSERT INTO core.account_periods BY NAME FROM periods

-- name: quarantine
-- Writes core.quarantine: a record that is there already gets a later time, whatever its place on the page.
MERGE INTO core.quarantine AS q
USING quarantined AS r
ON q.digest = r.digest AND q.reason = r.reason AND q.resource = r.resource AND q.account_id = r.account_id
    AND q.surface = r.surface
WHEN MATCHED THEN UPDATE SET last_seen_at = r.last_seen_at
WHEN NOT MATCHED THEN INSERT BY NAME
RETURNING merge_action, run_id

-- name: findings
-- Writes core.scan_findings.
INSERT INTO core.scan_findings BY NAME FROM findings

-- name: outcomes
-- Writes core.run_outcomes: the last outcome of a partition in a run counts.
MERGE INTO core.run_outcomes AS o
USING outcomes AS n
ON o.run_id = n.run_id AND o.resource = n.resource AND o.account_id = n.account_id AND o.surface = n.surface
WHEN MATCHED THEN UPDATE SET
    outcome = n.outcome, pages = n.pages, items = n.items, error_code = n.error_code, http_status = n.http_status,
    correlation_id = n.correlation_id, resume_after = n.resume_after, detail = n.detail, started_at = n.started_at,
    ended_at = n.ended_at
WHEN NOT MATCHED THEN INSERT BY NAME

-- name: closing
-- The last closed scans of the partitions that the batch closes. Writes nothing.
SELECT
    c.n,
    if(w.seq IS NULL, NULL, w) AS before,
    c.scan_id IN (SELECT scan_id FROM core.scan_findings WHERE finding <> 'listed_twice') AS is_blocked
FROM ends AS c
LEFT JOIN core.closed_scans AS w
    ON w.resource = c.resource AND w.account_id = c.account_id AND w.surface = c.surface
ORDER BY c.n

-- name: missed
-- The items that closed scans covered and did not list. Writes nothing.
--
-- Items with the same time as the last post of a recent scan are not covered: they may follow it. A story whose lifetime
-- was over when it was first missed has expired. Any other item is confirmed as removed by a scan that began an hour
-- after the end of the first that missed it.
CREATE OR REPLACE TEMP TABLE missed AS
SELECT
    m.rowid AS row, m.account_id, m.surface, m.media_id, c.n, c.run_seq, c.decides, c.closed_at,
    m.missed_at IS NULL AS is_first,
    is_first AND coalesce(c.closed_at - coalesce(m.published_at, m.first_seen_at) >= to_seconds(c.lifetime), false)
        AS is_expired,
    coalesce(c.started_at >= m.missed_at + to_seconds({confirm_after}), false) AS is_confirmed
FROM closing AS c
JOIN core.media AS m ON m.account_id = c.account_id AND m.surface = c.surface
WHERE m.removed_at IS NULL AND m.seen_seq < c.began_seq AND (NOT c.is_recent OR m.published_at > c.covered_from)

-- name: missed_counts
-- How many items each scan missed. Writes nothing.
SELECT
    n, run_seq, count(*) AS missed, count(*) FILTER (is_first AND decides) AS first_missed,
    count(*) FILTER (is_expired AND decides) AS expired
FROM missed
GROUP BY n, run_seq

-- name: missed_items
-- Marks the missed items. The removal of those that are confirmed is decided when the run ends. Writes core.media.
UPDATE core.media SET
    missed_at = coalesce(media.missed_at, x.closed_at),
    confirmed_by = if(x.is_confirmed, x.run_seq, media.confirmed_by),
    removed_at = if(x.is_expired, x.closed_at, NULL),
    removal = if(x.is_expired, 'expired', NULL),
    run_seq = if(x.is_expired, x.run_seq, media.run_seq)
FROM missed AS x
WHERE media.rowid = x.row AND x.decides

-- name: expired
-- Writes core.events.
INSERT INTO core.events BY NAME
SELECT account_id, surface, media_id, 'expired' AS event, closed_at AS changed_at, run_seq
FROM missed
WHERE is_expired AND decides

-- name: missed_accounts
-- Marks the accounts that a complete catalogue did not list. One that listed none decides nothing. Writes core.accounts.
UPDATE core.accounts SET
    missed_at = coalesce(accounts.missed_at, c.closed_at),
    confirmed_by = if(
        c.started_at >= accounts.missed_at + to_seconds({confirm_accounts_after}), c.run_seq, accounts.confirmed_by
    )
FROM closing AS c
WHERE c.resource = 'accounts' AND c.decides AND accounts.removed_at IS NULL AND accounts.seen_seq < c.began_seq
  AND EXISTS (FROM core.accounts AS listed WHERE listed.seen_seq >= c.began_seq)

-- name: closed_scans
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

-- name: old_findings
-- Deletes the findings of scans that began before those that the batch closed. Writes core.scan_findings.
DELETE FROM core.scan_findings AS f
USING closing AS c
WHERE f.resource = c.resource AND f.account_id = c.account_id AND f.surface = c.surface AND f.seq < c.began_seq

-- name: run_counts
-- Adds the changes of the batch to the counts of its runs. Writes core.run_counts.
MERGE INTO core.run_counts AS c
USING counted AS n
ON c.run_seq = n.run_seq
WHEN MATCHED THEN UPDATE SET
    pages = c.pages + n.pages, items = c.items + n.items, added = c.added + n.added, changed = c.changed + n.changed,
    returned = c.returned + n.returned, missed = c.missed + n.missed, removed = c.removed + n.removed,
    expired = c.expired + n.expired, accounts_removed = c.accounts_removed + n.accounts_removed,
    quarantined = c.quarantined + n.quarantined
WHEN NOT MATCHED THEN INSERT BY NAME

-- name: merged
-- Everything up to this landing is merged. The first mapping stays in force until a rebuild. Writes core.warehouse.
UPDATE core.warehouse SET
    merged_seq = ?, raw_seq = coalesce(?, raw_seq), mapping = coalesce(mapping, ?),
    content_rule = coalesce(content_rule, ?)

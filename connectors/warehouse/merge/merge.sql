-- name: account_listings
-- The listings of accounts, with what is `known` of them from then on, and `before`. Writes nothing.
--
-- Of the records that one catalogue has of an account the first one counts. A malformed one has `said` nothing: the
-- account is listed, if it is known.
CREATE OR REPLACE TEMP TABLE account_listings AS
SELECT *, is_returned OR known.status IS DISTINCT FROM before.status AS begins_status
FROM (
    SELECT
        p.* EXCLUDE (account_id), l.account_id, l.said, a.first_seen_at, a.status_since, a.present_seq,
        a.removed_at IS NOT NULL AS is_returned,
        if(a.account_id IS NULL, NULL, struct_pack(
            listed_as := a.listed_as, ig_username := a.ig_username, public_id := a.public_id, status := a.status
        )) AS before,
        coalesce(a.seen_seq >= p.began_seq, false) AS is_repeated,
        if(is_repeated OR l.said IS NULL, before, l.said) AS known
    FROM listed_accounts AS l
    JOIN pages AS p ON p.seq = l.seq
    LEFT JOIN core.accounts AS a ON a.account_id = l.account_id
    WHERE a.account_id IS NOT NULL OR l.said IS NOT NULL
)

-- name: accounts
-- Writes core.accounts.
MERGE INTO core.accounts AS a
USING (
    SELECT
        account_id, known.listed_as, known.ig_username, known.public_id, known.status,
        if(begins_status, received_at, status_since) AS status_since,
        coalesce(first_seen_at, received_at) AS first_seen_at, run_seq, seq AS seen_seq,
        if(before IS NULL OR is_returned, seq, present_seq) AS present_seq, received_at AS last_seen_at,
        NULL AS missed_at, NULL AS confirmed_by, NULL AS removed_at, NULL AS removal
    FROM account_listings
) AS l
ON a.account_id = l.account_id
WHEN MATCHED THEN UPDATE BY NAME
WHEN NOT MATCHED THEN INSERT BY NAME

-- name: periods
-- Ends the status and the names that others follow, and adds these. Writes core.account_periods.
CREATE OR REPLACE TEMP TABLE begun AS
SELECT account_id, 'status' AS attribute, known.status AS value, received_at AS valid_from, seq, run_seq
FROM account_listings
WHERE begins_status
UNION ALL
SELECT account_id, 'ig_username', known.ig_username, received_at, seq, run_seq
FROM account_listings
WHERE known.ig_username IS DISTINCT FROM before.ig_username;
UPDATE core.account_periods AS p SET valid_to = b.valid_from
FROM begun AS b
WHERE p.account_id = b.account_id AND p.attribute = b.attribute AND p.valid_to IS NULL;
INSERT INTO core.account_periods BY NAME FROM begun ORDER BY seq

-- name: listed_twice
-- Writes core.scan_findings: accounts of which one catalogue has records that differ.
INSERT INTO core.scan_findings BY NAME
SELECT
    'accounts' AS resource, '' AS account_id, '' AS surface, scan_id, 'listed_twice' AS finding,
    account_id AS record_id, seq
FROM account_listings
WHERE is_repeated AND (said.ig_username <> before.ig_username OR said.status <> before.status)

-- name: released
-- Deletes the records that a rebuild landed again (rebuild.sql), and that have been read now. Writes core.quarantine.
DELETE FROM core.quarantine AS q
USING released AS r
WHERE q.account_id = r.account_id AND q.surface = r.surface
  AND encode('{"items":[' || q.payload || '],"next_cursor":null}') = r.body

-- name: quarantine
-- Writes core.quarantine: a record that is there already gets a later time, whatever its place on the page. Of equal
-- ones in the batch the first counts.
MERGE INTO core.quarantine AS q
USING (
    SELECT
        p.resource, p.account_id, p.surface, p.page, p.run_id, p.correlation_id, r.position, r.reason, r.payload,
        r.digest::UBIGINT AS digest, p.received_at AS seen_at, max(p.received_at) OVER same AS last_seen_at
    FROM rejected AS r
    JOIN pages AS p ON p.seq = r.seq
    WINDOW same AS (PARTITION BY p.resource, p.account_id, p.surface, r.reason, r.digest)
    QUALIFY row_number() OVER (same ORDER BY r.seq, r.position) = 1
) AS r
ON q.digest = r.digest AND q.reason = r.reason AND q.resource = r.resource AND q.account_id = r.account_id
    AND q.surface = r.surface
WHEN MATCHED THEN UPDATE SET last_seen_at = r.last_seen_at
WHEN NOT MATCHED THEN INSERT BY NAME
RETURNING merge_action, run_id

-- name: rejected
-- Writes core.scan_findings: records without an id, so that any which the scan seems to miss may be one of them. No scan
-- has those that a rebuild landed again.
INSERT INTO core.scan_findings BY NAME
SELECT p.resource, p.account_id, p.surface, p.scan_id, 'rejected' AS finding, NULL AS record_id, r.seq
FROM rejected AS r
JOIN pages AS p ON p.seq = r.seq
WHERE NOT r.has_id AND p.scan_id <> ''

-- name: outcomes
-- Writes core.run_outcomes: the last outcome of a partition in a run counts.
MERGE INTO core.run_outcomes AS o
USING (
    SELECT * EXCLUDE (seq, kind, partition), kind AS outcome, unnest(partition)
    FROM outcomes
    QUALIFY row_number() OVER (PARTITION BY run_id, partition ORDER BY seq DESC) = 1
) AS n
ON o.run_id = n.run_id AND o.resource = n.resource AND o.account_id = n.account_id AND o.surface = n.surface
WHEN MATCHED THEN UPDATE BY NAME
WHEN NOT MATCHED THEN INSERT BY NAME

-- name: closing
-- The closed scans of the batch that say something, and the last ones of their partitions. Writes nothing.
--
-- A scan says nothing if another one of its partition was closed after it began, because its first pages are older than
-- that result; nor does a recent one of a partition that has never been scanned in full. `is_blocked`: it rejected
-- records, or found different ones with one id. The part of the refresh interval after which the first full scan is due
-- again differs, so that the full scans of all accounts are spread.
CREATE OR REPLACE TEMP TABLE closing AS
SELECT
    p.* EXCLUDE (page, received_at), p.received_at AS closed_at, e.started_at, e.had_expired_token, e.pages, e.items,
    e.state = 'recent' AS is_recent, e.read_to::TIMESTAMPTZ AS read_to, e.order_broken_by::VARCHAR AS order_broken_by,
    e.lifetime::BIGINT AS lifetime,
    coalesce(e.full_share::DOUBLE, (md5_number_lower(p.account_id) % 10000 + 1) / 10000) AS full_share,
    w.complete_at, w.pages AS full_pages, w.items AS full_items, w.order_proofs AS proofs_before, w.item_order,
    w.order_broken_by AS broken_before, w.full_share AS share_before, w.removals_undecided_since AS undecided_before,
    f.scan_id IS NOT NULL AS is_blocked, NOT is_blocked AND NOT e.had_expired_token AS decides
FROM ends AS e
JOIN pages AS p ON p.seq = e.seq
LEFT JOIN (SELECT DISTINCT scan_id FROM core.scan_findings WHERE finding <> 'listed_twice') AS f ON f.scan_id = p.scan_id
LEFT JOIN core.closed_scans AS w
    ON w.resource = p.resource AND w.account_id = p.account_id AND w.surface = p.surface
WHERE if(w.seq IS NULL, NOT is_recent, w.seq <= p.began_seq)

-- name: missed
-- The items that closed scans covered and did not list. Writes nothing.
--
-- Items with the same time as the last post of a recent scan are not covered: they may follow it. A story whose lifetime
-- was over when it was first missed has expired. Any other item is confirmed as removed by a scan that began an hour
-- after the end of the first that missed it: the cause of a truncated listing may last a while.
CREATE OR REPLACE TEMP TABLE missed AS
SELECT
    m.rowid AS row, m.account_id, m.surface, m.media_id, c.seq, c.run_seq, c.decides, c.closed_at,
    m.missed_at IS NULL AS is_first,
    m.missed_at IS NULL AND coalesce(
        c.closed_at - coalesce(m.published_at, m.first_seen_at) >= to_seconds(c.lifetime), false
    ) AS is_expired,
    coalesce(c.started_at >= m.missed_at + INTERVAL 1 HOUR, false) AS is_confirmed
FROM closing AS c
JOIN core.media AS m ON m.account_id = c.account_id AND m.surface = c.surface
WHERE m.removed_at IS NULL AND m.seen_seq < c.began_seq AND (NOT c.is_recent OR m.published_at > c.read_to)

-- name: missed_counts
-- How many each run missed, for the first time or again. Writes nothing.
SELECT run_seq, if(is_first, 'missed', 'missed again') AS name, count(*) FROM missed WHERE decides GROUP BY ALL

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
RETURNING run_seq, event

-- name: missed_accounts
-- Marks the accounts that a complete catalogue did not list. One that listed none decides nothing. It is twelve hours
-- (the warning `accounts_missing` says so) until another one confirms it: a key that lost its grants must not remove them
-- before somebody has noticed. Writes core.accounts.
UPDATE core.accounts SET
    missed_at = coalesce(accounts.missed_at, c.closed_at),
    confirmed_by = if(
        c.started_at >= accounts.missed_at + INTERVAL 12 HOUR, c.run_seq, accounts.confirmed_by
    )
FROM closing AS c
WHERE c.resource = 'accounts' AND c.decides AND accounts.removed_at IS NULL AND accounts.seen_seq < c.began_seq
  AND EXISTS (FROM core.accounts AS listed WHERE listed.seen_seq >= c.began_seq)

-- name: closed_scans
-- Remembers the scans. A recent one leaves what the last full one found. Of the full scans that must find posts in order,
-- at first one, and two after a post out of order, each that does is one less. A scan that is blocked leaves undecided
-- what it missed. Writes core.closed_scans.
MERGE INTO core.closed_scans AS w
USING (
    SELECT
        resource, account_id, surface, seq, began_seq,
        if(is_recent, complete_at, closed_at) AS complete_at, if(is_recent, closed_at, NULL) AS recent_at,
        if(is_recent, read_to, NULL) AS covered_from,
        if(is_recent, full_pages, pages) AS pages, if(is_recent, full_items, items) AS items,
        CASE
            WHEN is_recent THEN proofs_before
            WHEN order_broken_by IS NOT NULL THEN 2
            ELSE greatest(coalesce(proofs_before, 1) - (read_to IS NOT NULL)::INTEGER, 0)
        END AS order_proofs,
        CASE WHEN is_recent THEN item_order WHEN order_proofs = 0 AND read_to IS NOT NULL THEN 'newest_first' END
            AS item_order,
        if(is_recent, broken_before, order_broken_by) AS order_broken_by,
        if(is_recent, share_before, full_share) AS full_share,
        CASE
            WHEN is_blocked AND (resource = 'accounts' OR seq IN (SELECT seq FROM missed))
                THEN coalesce(undecided_before, closed_at)
            WHEN is_recent OR had_expired_token THEN undecided_before
        END AS removals_undecided_since
    FROM closing
) AS c
ON w.resource = c.resource AND w.account_id = c.account_id AND w.surface = c.surface
WHEN MATCHED THEN UPDATE BY NAME
WHEN NOT MATCHED THEN INSERT BY NAME

-- name: old_findings
-- Deletes the findings of scans that began before those that the batch closed. Writes core.scan_findings.
DELETE FROM core.scan_findings AS f
USING closing AS c
WHERE f.resource = c.resource AND f.account_id = c.account_id AND f.surface = c.surface AND f.seq < c.began_seq

-- name: merged
-- Everything up to this landing is merged. The first mapping stays in force until a rebuild. Writes core.warehouse.
UPDATE core.warehouse SET
    merged_seq = ?, raw_seq = coalesce(?, raw_seq), mapping = coalesce(mapping, ?),
    content_rule = coalesce(content_rule, ?)

-- name: counted
-- Adds up the counts of runs. Writes core.run_counts.
MERGE INTO core.run_counts AS c
USING (
    SELECT run_seq, run_id, coalesce(COLUMNS(* EXCLUDE (run_seq, run_id)), 0)
    FROM (
        PIVOT (SELECT unnest(?, max_depth := 2)) ON name IN (
            'pages', 'items', 'added', 'changed', 'returned', 'missed', 'removed', 'expired', 'accounts_removed',
            'quarantined'
        ) USING sum(number) GROUP BY run_seq, run_id
    )
) AS n
ON c.run_seq = n.run_seq
WHEN MATCHED THEN UPDATE SET
    pages = c.pages + n.pages, items = c.items + n.items, added = c.added + n.added, changed = c.changed + n.changed,
    returned = c.returned + n.returned, missed = c.missed + n.missed, removed = c.removed + n.removed,
    expired = c.expired + n.expired, accounts_removed = c.accounts_removed + n.accounts_removed,
    quarantined = c.quarantined + n.quarantined
WHEN NOT MATCHED THEN INSERT BY NAME

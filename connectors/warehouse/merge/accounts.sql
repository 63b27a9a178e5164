-- Writes core.accounts, core.account_status_history and core.events; accounts that are listed are not missing any more.
--
-- Reads account_items: the accounts on the batch's pages. Rejected records are among them, without a status: a known
-- account whose record was rejected is listed nevertheless, and keeps its last valid record.

-- Each time that an account was listed, with its values by then.
CREATE OR REPLACE TEMP TABLE account_sightings AS
SELECT
    lower(i.listed_as) AS account_id, i.listed_as, i.unknown_status, i.seq, i.position, p.scan_id, p.received_at, p.run_seq,
    coalesce(last_value(i.ig_username IGNORE NULLS) OVER so_far, a.ig_username) AS ig_username,
    coalesce(last_value(i.public_id IGNORE NULLS) OVER so_far, a.public_id) AS public_id,
    coalesce(last_value(i.status IGNORE NULLS) OVER so_far, a.status) AS status,
    coalesce(
        a.first_seen_at,
        first_value(CASE WHEN i.status IS NOT NULL THEN p.received_at END IGNORE NULLS) OVER so_far
    ) AS first_seen_at,
    a.status_since AS stored_since,
    coalesce(
        last_value(i.ig_username IGNORE NULLS) OVER (so_far ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        a.ig_username
    ) AS name_before,
    if(a.removed_at IS NULL, a.status, 'removed') AS stored_status
FROM account_items AS i
JOIN pages AS p USING (seq)
LEFT JOIN core.accounts AS a ON a.account_id = lower(i.listed_as)
WINDOW so_far AS (PARTITION BY lower(i.listed_as) ORDER BY i.seq, i.position)
-- Without a status, no valid record of it has been received.
QUALIFY coalesce(last_value(i.status IGNORE NULLS) OVER so_far, a.status) IS NOT NULL;

-- A status period begins when an account's status differs from the previous observation. That does not depend on how
-- the pages were divided into merges, so a killed run leaves the same history as an uninterrupted one.
CREATE OR REPLACE TEMP TABLE account_periods AS
WITH compared AS (
    SELECT *, coalesce(lag(status) OVER (PARTITION BY account_id ORDER BY seq, position), stored_status) AS before
    FROM account_sightings
)
SELECT
    account_id, status, run_seq, received_at AS valid_from,
    lead(received_at) OVER (PARTITION BY account_id ORDER BY seq, position) AS valid_to
FROM compared
WHERE status IS DISTINCT FROM before;

UPDATE core.account_status_history AS h
SET valid_to = p.began
FROM (SELECT account_id, min(valid_from) AS began FROM account_periods GROUP BY account_id) AS p
WHERE h.account_id = p.account_id AND h.valid_to IS NULL;

INSERT INTO core.account_status_history (account_id, status, valid_from, valid_to, run_seq)
SELECT account_id, status, valid_from, valid_to, run_seq FROM account_periods ORDER BY account_id, valid_from;

INSERT INTO core.events BY NAME
SELECT
    'accounts' AS resource, account_id, run_seq, received_at AS changed_at, 'renamed' AS event,
    name_before AS ig_username
FROM account_sightings
WHERE ig_username <> name_before;

CREATE OR REPLACE TEMP TABLE merged_accounts AS
WITH last AS (
    FROM account_sightings QUALIFY row_number() OVER (PARTITION BY account_id ORDER BY seq DESC, position DESC) = 1
)
SELECT
    l.account_id, l.ig_username, l.public_id, l.status,
    coalesce(p.valid_from, l.stored_since) AS status_since,
    l.first_seen_at,
    l.received_at AS last_seen_at,
    NULL::TIMESTAMPTZ AS removed_at,
    l.scan_id,
    l.seq AS seen_seq,
    nullif(l.listed_as, l.account_id) AS listed_as,
    l.unknown_status,
    l.run_seq
FROM last AS l
LEFT JOIN account_periods AS p ON p.account_id = l.account_id AND p.valid_to IS NULL;

DELETE FROM core.accounts USING merged_accounts AS m WHERE accounts.account_id = m.account_id;

INSERT INTO core.accounts BY NAME SELECT * FROM merged_accounts ORDER BY account_id;

DELETE FROM ops.missing_accounts WHERE account_id IN (SELECT account_id FROM merged_accounts);

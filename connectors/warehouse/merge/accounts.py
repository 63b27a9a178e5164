"""Merges pages of the account catalogue: accounts as last listed, and every change of their status."""

from connectors.warehouse.merge.account_removal import mark_accounts_gone
from connectors.warehouse.runs.account_ids import STORED_IDS
from connectors.warehouse.storage.connection import Connection, value

_SIGHTINGS = f"""
CREATE OR REPLACE TEMP TABLE account_sightings AS
SELECT a.*, f.scan_id, f.received_at, coalesce(k.account_id, lower(a.listed_as)) AS account_id
FROM account_items AS a JOIN ops.staging AS f USING (seq) LEFT JOIN ({STORED_IDS}) AS k ON k.uuid = lower(a.listed_as)
WHERE seq <= getvariable('slice_end')
"""  # noqa: S608 - constants

# A known account whose record was rejected is listed nevertheless: it is not removed, and keeps its last valid record.
_RELISTED = f"""
CREATE OR REPLACE TEMP TABLE account_relisted AS
WITH aside AS (
    SELECT r.listed_as, r.unknown_status, r.position, f.scan_id, f.received_at, f.seq
    FROM rejected_records AS r JOIN ops.staging AS f USING (seq)
    WHERE r.resource = 'accounts' AND seq <= getvariable('slice_end')
),
known AS (
    {STORED_IDS} UNION SELECT lower(account_id), account_id FROM account_sightings
)
SELECT k.account_id, a.* FROM aside AS a JOIN known AS k ON k.uuid = lower(a.listed_as)
"""  # noqa: S608
_NOTHING_RELISTED = """
CREATE OR REPLACE TEMP TABLE account_relisted (
    account_id VARCHAR, received_at TIMESTAMPTZ, seq BIGINT, position INTEGER
)
"""

# A status period begins when an account's status differs from the previous observation. That does not depend on how the
# pages were divided into merges, so a killed run leaves the same history as an uninterrupted one.
_PERIODS = """
CREATE OR REPLACE TEMP TABLE account_periods AS
WITH listed AS (
    SELECT account_id, status, received_at, seq, position FROM account_sightings
    UNION ALL
    SELECT account_id, NULL, received_at, seq, position FROM account_relisted
),
as_read AS (
    SELECT
        l.* REPLACE (
            coalesce(
                last_value(l.status IGNORE NULLS) OVER (
                    PARTITION BY l.account_id ORDER BY l.seq, l.position
                    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                ),
                a.status
            ) AS status
        ),
        CASE WHEN a.removed_at IS NULL THEN a.status ELSE 'removed' END AS stored
    FROM listed AS l
    LEFT JOIN core.accounts AS a USING (account_id)
),
compared AS (
    SELECT *, coalesce(lag(status) OVER (PARTITION BY account_id ORDER BY seq, position), stored) AS before
    FROM as_read WHERE status IS NOT NULL
)
SELECT
    account_id, status, received_at AS valid_from,
    lead(received_at) OVER (PARTITION BY account_id ORDER BY seq, position) AS valid_to
FROM compared
WHERE status IS DISTINCT FROM before
"""

_CLOSE_PERIODS = """
UPDATE core.account_status_history AS h
SET valid_to = p.began
FROM (SELECT account_id, min(valid_from) AS began FROM account_periods GROUP BY account_id) AS p
WHERE h.account_id = p.account_id AND h.valid_to IS NULL
"""

_OPEN_PERIODS = """
INSERT INTO core.account_status_history (account_id, status, valid_from, valid_to)
SELECT account_id, status, valid_from, valid_to FROM account_periods ORDER BY account_id, valid_from
"""

_MERGED = """
CREATE OR REPLACE TEMP TABLE merged_accounts AS
WITH last AS (
    SELECT
        s.*,
        first_value(s.received_at) OVER (PARTITION BY s.account_id ORDER BY s.seq, s.position) AS first_received_at
    FROM account_sightings AS s
    QUALIFY row_number() OVER (PARTITION BY s.account_id ORDER BY s.seq DESC, s.position DESC) = 1
),
present AS (
    SELECT account_id, valid_from FROM account_periods WHERE valid_to IS NULL
)
SELECT
    l.account_id, l.ig_username, l.public_id, l.status,
    coalesce(p.valid_from, a.status_since) AS status_since,
    coalesce(a.first_seen_at, l.first_received_at) AS first_seen_at,
    l.received_at AS last_seen_at,
    NULL::TIMESTAMPTZ AS removed_at,
    l.scan_id,
    l.seq AS seen_seq,
    nullif(l.listed_as, l.account_id) AS listed_as,
    NULL::VARCHAR AS unknown_status
FROM last AS l
LEFT JOIN core.accounts AS a USING (account_id)
LEFT JOIN present AS p USING (account_id)
"""

_REPLACE = (
    "DELETE FROM core.accounts USING merged_accounts AS f WHERE accounts.account_id = f.account_id",
    """
INSERT INTO core.accounts BY NAME SELECT * FROM merged_accounts ORDER BY account_id
""",
)

_TOUCH_RELISTED = """
UPDATE core.accounts
SET scan_id = listed.scan_id, last_seen_at = listed.received_at, seen_seq = listed.seq, removed_at = NULL,
    status_since = coalesce(listed.valid_from, status_since),
    listed_as = nullif(listed.listed_as, accounts.account_id), unknown_status = listed.unknown_status
FROM (
    SELECT r.*, p.valid_from
    FROM account_relisted AS r
    LEFT JOIN account_periods AS p ON p.account_id = r.account_id AND p.valid_to IS NULL
    QUALIFY row_number() OVER (PARTITION BY r.account_id ORDER BY r.seq DESC, r.position DESC) = 1
) AS listed
WHERE accounts.account_id = listed.account_id
  AND NOT EXISTS (
    FROM account_sightings AS s
    WHERE s.account_id = listed.account_id AND (s.seq, s.position) > (listed.seq, listed.position)
  )
"""

_GONE = "CREATE OR REPLACE TEMP TABLE gone_accounts (run_id VARCHAR)"

_LISTED_AGAIN = """
DELETE FROM ops.missing_accounts
WHERE account_id IN (SELECT account_id FROM account_sightings UNION SELECT account_id FROM account_relisted)
"""


def merge_accounts(connection: Connection, *, are_listed: bool, are_rejected: bool) -> None:
    """Merge the catalogue pages of a slice, and mark accounts as removed that the scan in `finished` did not list.

    Leaves the temporary table `gone_accounts`: the accounts marked as removed, with the run that missed them.
    `are_listed`: the merge contains catalogue pages; `are_rejected`: it contains rejected records.
    """
    db = connection.db
    db.execute(_GONE)
    if not are_listed:
        return
    for statement in (_SIGHTINGS, _RELISTED if are_rejected else _NOTHING_RELISTED, _PERIODS):
        db.execute(statement)
    follow_status = (_CLOSE_PERIODS, _OPEN_PERIODS) if value(db, "SELECT EXISTS (FROM account_periods)") else ()
    for statement in (*follow_status, _MERGED, *_REPLACE):
        db.execute(statement)
    if are_rejected:
        db.execute(_TOUCH_RELISTED)
    if value(db, "SELECT EXISTS (FROM ops.missing_accounts)"):
        db.execute(_LISTED_AGAIN)
    mark_accounts_gone(connection)

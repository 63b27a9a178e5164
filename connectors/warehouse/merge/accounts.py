"""Merges pages of the account catalogue: accounts as last listed, and every change of their status."""

from connectors.warehouse.merge.account_removal import mark_accounts_removed
from connectors.warehouse.merge.merge_batch import MergeBatch

_SIGHTINGS = """
SELECT a.*, f.scan_id, f.received_at, lower(a.listed_as) AS account_id
FROM account_items AS a JOIN pages AS f USING (seq)
"""

# A known account whose record was rejected is listed nevertheless: it is not removed, and keeps its last valid record.
_RELISTED = """
WITH aside AS (
    SELECT
        lower(r.listed_as) AS account_id, r.listed_as, r.unknown_status, r.position, f.scan_id, f.received_at, f.seq
    FROM rejected_records AS r JOIN pages AS f USING (seq)
    WHERE r.resource = 'accounts'
)
FROM aside SEMI JOIN (SELECT account_id FROM core.accounts UNION ALL SELECT account_id FROM {sightings}) AS known
    USING (account_id)
"""
_RELISTED_COLUMNS = "account_id VARCHAR, received_at TIMESTAMPTZ, seq BIGINT, position INTEGER"

# A status period begins when an account's status differs from the previous observation. That does not depend on how the
# pages were divided into merges, so a killed run leaves the same history as an uninterrupted one.
_PERIODS = """
WITH listed AS (
    SELECT account_id, status, received_at, seq, position FROM {sightings}
    UNION ALL
    SELECT account_id, NULL, received_at, seq, position FROM {relisted}
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
FROM (SELECT account_id, min(valid_from) AS began FROM {periods} GROUP BY account_id) AS p
WHERE h.account_id = p.account_id AND h.valid_to IS NULL
"""

_OPEN_PERIODS = """
INSERT INTO core.account_status_history (account_id, status, valid_from, valid_to)
SELECT account_id, status, valid_from, valid_to FROM {periods} ORDER BY account_id, valid_from
"""

_MERGED = """
WITH last AS (
    SELECT
        s.*,
        first_value(s.received_at) OVER (PARTITION BY s.account_id ORDER BY s.seq, s.position) AS first_received_at
    FROM {sightings} AS s
    QUALIFY row_number() OVER (PARTITION BY s.account_id ORDER BY s.seq DESC, s.position DESC) = 1
),
present AS (
    SELECT account_id, valid_from FROM {periods} WHERE valid_to IS NULL
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
    "DELETE FROM core.accounts USING {merged} AS f WHERE accounts.account_id = f.account_id",
    """
INSERT INTO core.accounts BY NAME SELECT * FROM {merged} ORDER BY account_id
""",
)

_TOUCH_RELISTED = """
UPDATE core.accounts
SET scan_id = listed.scan_id, last_seen_at = listed.received_at, seen_seq = listed.seq, removed_at = NULL,
    status_since = coalesce(listed.valid_from, status_since),
    listed_as = nullif(listed.listed_as, accounts.account_id), unknown_status = listed.unknown_status
FROM (
    SELECT r.*, p.valid_from
    FROM {relisted} AS r
    LEFT JOIN {periods} AS p ON p.account_id = r.account_id AND p.valid_to IS NULL
    QUALIFY row_number() OVER (PARTITION BY r.account_id ORDER BY r.seq DESC, r.position DESC) = 1
) AS listed
WHERE accounts.account_id = listed.account_id
  AND NOT EXISTS (
    FROM {sightings} AS s
    WHERE s.account_id = listed.account_id AND (s.seq, s.position) > (listed.seq, listed.position)
  )
"""

_LISTED_AGAIN = """
DELETE FROM ops.missing_accounts
WHERE account_id IN (SELECT account_id FROM {sightings} UNION SELECT account_id FROM {relisted})
"""


def merge_accounts(batch: MergeBatch, *, are_rejected: bool, is_closed: bool) -> str | None:
    """Merge the accounts of the batch, and mark accounts as removed that a closed scan of the catalogue did not list.

    `are_rejected`: the batch has rejected records; `is_closed`: it has a closed scan of the catalogue. Returns a
    relation with the accounts marked as removed, and the run that missed them (`run_id`); None if there are none.
    """
    sightings = batch.table("account_sightings", _SIGHTINGS)
    if are_rejected:
        relisted = batch.table("account_relisted", _RELISTED, sightings=sightings)
    else:
        relisted = batch.empty("account_relisted", _RELISTED_COLUMNS)
    periods = batch.table("account_periods", _PERIODS, sightings=sightings, relisted=relisted)
    if batch.is_any(periods):
        batch.run(_CLOSE_PERIODS, _OPEN_PERIODS, periods=periods)
    merged = batch.table("merged_accounts", _MERGED, sightings=sightings, periods=periods)
    batch.run(*_REPLACE, merged=merged)
    if are_rejected:
        batch.run(_TOUCH_RELISTED, sightings=sightings, relisted=relisted, periods=periods)
    if batch.is_any("ops.missing_accounts"):
        batch.run(_LISTED_AGAIN, sightings=sightings, relisted=relisted)
    return mark_accounts_removed(batch) if is_closed else None

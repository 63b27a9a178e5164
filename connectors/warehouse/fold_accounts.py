"""Folding pages of the account catalogue: accounts as last listed, and every change of their status."""

from sqlalchemy import Connection

from connectors.warehouse.connection import duck, value

# Account pages whose records Python set aside carry their positions; what is left satisfies API 2.
_RECORDS = """
CREATE OR REPLACE TEMP TABLE account_records AS
WITH pages AS (
    SELECT *, from_json(body, '{"items":["JSON"]}').items AS page_items FROM folding WHERE resource = 'accounts'
),
records AS (
    SELECT
        seq, walk_id, run_id, page, correlation_id, received_at, set_aside,
        unnest(page_items) AS item, unnest(range(len(page_items))) AS position
    FROM pages
),
kept AS (
    SELECT * FROM records
    WHERE set_aside IS NULL
       OR NOT list_contains(from_json(set_aside, '[{"position":"INTEGER"}]').apply(lambda r: r.position), position)
)
SELECT
    * EXCLUDE (set_aside),
    item ->> '$.id' AS account_id,
    item ->> '$.ig_username' AS ig_username,
    item ->> '$.public_id' AS public_id,
    item ->> '$.status' AS status,
    account_id IS NOT NULL AND ig_username IS NOT NULL AND public_id IS NOT NULL AND status IS NOT NULL AS is_account
FROM kept
"""

# Most folds hold pages of media alone.
_ANYTHING = """
SELECT EXISTS (FROM folding WHERE resource = 'accounts') OR EXISTS (FROM finished WHERE resource = 'accounts')
"""

# Of a key written twice Python reads the last and DuckDB the first, which may be null.
_SIGHTINGS = """
CREATE OR REPLACE TEMP TABLE account_sightings AS SELECT * FROM account_records WHERE is_account
"""

# A status period begins where a sighting's status differs from the sighting before it, however the pages
# were cut into folds: so a killed run and an undisturbed one leave the same history.
_PERIODS = """
CREATE OR REPLACE TEMP TABLE account_periods AS
WITH compared AS (
    SELECT
        s.account_id, s.status, s.received_at, s.seq, s.position,
        coalesce(
            lag(s.status) OVER (PARTITION BY s.account_id ORDER BY s.seq, s.position), a.status
        ) AS before
    FROM account_sightings AS s
    LEFT JOIN core.accounts AS a USING (account_id)
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

_FOLDED = """
CREATE OR REPLACE TEMP TABLE folded_accounts AS
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
    l.walk_id,
    l.seq AS seen_seq
FROM last AS l
LEFT JOIN core.accounts AS a USING (account_id)
LEFT JOIN present AS p USING (account_id)
"""

_REPLACE = (
    "DELETE FROM core.accounts USING folded_accounts AS f WHERE accounts.account_id = f.account_id",
    """
INSERT INTO core.accounts BY NAME SELECT * FROM folded_accounts ORDER BY account_id
""",
)

# A known account whose record was set aside was listed all the same: it is not gone, and stays as it was read last.
_TOUCH_SET_ASIDE = """
UPDATE core.accounts
SET walk_id = listed.walk_id, last_seen_at = listed.received_at, seen_seq = listed.seq, removed_at = NULL
FROM (
    SELECT
        CASE WHEN json_valid(r.payload) THEN r.payload ->> '$.id' END AS account_id,
        arg_max(f.walk_id, f.seq) AS walk_id, arg_max(f.received_at, f.seq) AS received_at, max(f.seq) AS seq
    FROM folding AS f, unnest(from_json(f.set_aside, '[{"payload":"VARCHAR"}]')) AS x(r)
    WHERE f.resource = 'accounts' AND f.set_aside IS NOT NULL
    GROUP BY ALL
) AS listed
WHERE accounts.account_id = listed.account_id
  AND NOT EXISTS (
    FROM account_sightings AS s WHERE s.account_id = listed.account_id AND s.seq >= listed.seq
  )
"""

# Only a complete walk of the catalogue tells that an account is gone, and not of one that another walk listed since it
# began.
_REMOVE = """
UPDATE core.accounts
SET removed_at = w.complete_at
FROM finished AS w
WHERE w.resource = 'accounts' AND accounts.walk_id <> w.walk_id AND accounts.removed_at IS NULL
  AND coalesce(accounts.seen_seq, 0) < w.began_seq
"""


def fold_accounts(connection: Connection) -> None:
    """Fold the catalogue pages among `folding`, and mark what the walks in `finished` did not list."""
    db = duck(connection)
    db.execute(_RECORDS)
    if not value(db, _ANYTHING):
        return
    follow_status = (_PERIODS, _CLOSE_PERIODS, _OPEN_PERIODS)
    for statement in (_SIGHTINGS, *follow_status, _FOLDED, *_REPLACE, _TOUCH_SET_ASIDE, _REMOVE):
        db.execute(statement)

"""Decides which accounts are removed: those missing from a complete catalogue, with protection against mass removal."""

from connectors.warehouse.merge.merge_batch import MergeBatch
from connectors.warehouse.runs import ledger
from connectors.warehouse.storage.connection import Connection
from models.removal import ACCOUNTS_CONFIRM_AFTER_HOURS as _HOURS
from models.removal import ACCOUNTS_LIMIT, CONFIRM_AFTER_HOURS
from models.runs import RunWarning

REMOVED = "accounts_removed"

# An account that another scan has listed since this one began is not missing: it may be on a page that this scan had
# passed already.
_IS_MISSED = "a.removed_at IS NULL AND a.scan_id <> w.scan_id AND a.seen_seq < w.began_seq"
_IS_LISTED = "SELECT EXISTS (FROM {finished} WHERE resource = 'accounts')"
_IS_ANY_MISSED = f"""
SELECT EXISTS (FROM core.accounts AS a JOIN {{finished}} AS w ON w.resource = 'accounts' AND {_IS_MISSED})
"""

# An empty catalogue neither confirms a removal nor can be confirmed, so it sets no `missed_from`. The confirming scan
# must begin some time after both the beginning (`missed_from`) and the end (`since`) of the first one: a resumed scan
# may have begun many hours before it ended, and a scan directly after it confirms nothing.
_MISSED = f"""
WITH ended AS (
    SELECT *, EXISTS (FROM core.accounts WHERE scan_id = f.scan_id) AS lists_any
    FROM {{finished}} AS f WHERE resource = 'accounts'
)
SELECT
    a.account_id, w.run_id,
    least(p.since, w.complete_at) AS since,
    CASE WHEN w.lists_any THEN least(p.missed_from, w.started_at) ELSE p.missed_from END AS missed_from,
    w.lists_any AND coalesce(
        greatest(p.missed_from + INTERVAL {_HOURS} HOUR, p.since + INTERVAL {CONFIRM_AFTER_HOURS} HOUR)
        <= w.started_at AND p.missed_from IS NOT NULL, false
    ) AS is_confirmed
FROM core.accounts AS a
JOIN ended AS w ON {_IS_MISSED}
LEFT JOIN ops.missing_accounts AS p ON p.account_id = a.account_id
"""  # noqa: S608

# The limit is a share of the accounts known before the scan began: new accounts must not raise it. Only accounts first
# seen during the scan are new; later times come from a clock that was ahead.
_GUARDED = f"""
WITH known AS (
    SELECT count(*) AS accounts FROM core.accounts
    WHERE removed_at IS NULL AND (
        first_seen_at NOT BETWEEN (SELECT started_at FROM {{finished}} WHERE resource = 'accounts')
            AND (SELECT complete_at FROM {{finished}} WHERE resource = 'accounts')
        OR account_id IN (SELECT account_id FROM {{missed}})
    )
),
missed AS (
    SELECT count(*) FILTER (NOT is_confirmed) AS in_doubt, count(*) FILTER (is_confirmed) AS confirmed
    FROM {{missed}}
)
SELECT
    in_doubt > 1 AND in_doubt > {ACCOUNTS_LIMIT} * (accounts - confirmed) OR in_doubt = accounts - confirmed
FROM known, missed
"""  # noqa: S608

_ACCEPTED = """
SELECT EXISTS (FROM core.runs SEMI JOIN {finished} AS f ON f.resource = 'accounts' AND f.run_id = runs.run_id
WHERE accept_removals)
"""

_GONE = "FROM {missed} WHERE is_confirmed OR NOT {guarded}"

_MARK = (
    """
UPDATE core.accounts SET removed_at = g.since FROM {gone} AS g WHERE accounts.account_id = g.account_id
""",
    """
UPDATE core.account_status_history AS h SET valid_to = g.since
FROM {gone} AS g WHERE h.account_id = g.account_id AND h.valid_to IS NULL
""",
    """
INSERT INTO core.account_status_history (account_id, status, valid_from)
SELECT account_id, 'removed', since FROM {gone} ORDER BY account_id
""",
    "DELETE FROM ops.missing_accounts",
    """
INSERT INTO ops.missing_accounts
SELECT account_id, since, missed_from FROM {missed} ANTI JOIN {gone} USING (account_id)
""",
)

_COUNTS = """
SELECT count(*), count(*) FILTER (is_confirmed), any_value(run_id), min(since) FILTER (is_confirmed) FROM {gone}
"""


def nothing_gone(batch: MergeBatch) -> str:
    """Return an empty relation of accounts that were marked as removed."""
    return batch.empty("gone_accounts", "run_id VARCHAR")


def mark_accounts_gone(batch: MergeBatch, finished: str) -> str:
    """Mark accounts as removed that the catalogue scan in `finished`, if any, did not list.

    Returns a relation with the marked accounts and the run that missed them (`run_id`). If too many accounts are
    missing, only those that an earlier scan missed too are marked; the others wait in `ops.missing_accounts`. A run
    with `accept_removals` marks all.
    """
    if not batch.value(_IS_LISTED, finished=finished):
        return nothing_gone(batch)
    if not batch.value(_IS_ANY_MISSED, finished=finished):
        batch.run("DELETE FROM ops.missing_accounts")
        return nothing_gone(batch)
    missed = batch.table("missed_accounts", _MISSED, finished=finished)
    accepted = bool(batch.value(_ACCEPTED, finished=finished))
    guarded = bool(batch.value(_GUARDED, finished=finished, missed=missed))
    gone = batch.table("gone_accounts", _GONE, missed=missed, guarded=guarded and not accepted)
    batch.run(*_MARK, gone=gone, missed=missed)
    [(marked, confirmed, run_id, since)] = batch.rows(_COUNTS, gone=gone)
    if guarded and accepted:
        _warn(batch.connection, run_id, marked, "they are not in the catalogue, and --accept-removals was given")
    elif confirmed:
        why = f"catalogues at least {_HOURS} hours apart, the first of {since:%Y-%m-%d %H:%M} UTC, did not list them"
        _warn(batch.connection, run_id, confirmed, why)
    return gone


def _warn(connection: Connection, run_id: str, count: int, why: str) -> None:
    detail = f"{count:,} {'account was' if count == 1 else 'accounts were'} marked as removed: {why}."
    ledger.warn(connection, run_id, RunWarning(REMOVED, count, detail))


_STANDING = """
SELECT
    (SELECT count(*) FROM ops.missing_accounts),
    (SELECT count(*) FROM core.accounts WHERE removed_at IS NULL),
    (SELECT count(*) FROM ops.missing_accounts WHERE missed_from IS NULL)
"""


def missing_accounts(connection: Connection) -> RunWarning | None:
    """Return a warning about the accounts whose removal awaits confirmation; None if there are none."""
    missing, known, only_empty = connection.db.execute(_STANDING).fetchall()[0]
    if not missing:
        return None
    confirms = f"a sync at least {_HOURS} hours later marks them as removed if they are still missing"
    empty = ", which was empty" if only_empty == missing else ""
    return RunWarning(
        "accounts_missing",
        missing,
        f"{missing:,} of {known:,} known accounts are missing from the catalogue{empty}: none of them was marked"
        " as removed.",
        "check which accounts the API key can access, and the address. If the accounts were really removed, run"
        f" `gramhouse sync --accept-removals`{'' if empty else f'; {confirms}'}.",
        makes_partial=True,
    )

"""Decides which accounts are removed: those that two complete catalogues did not list, or a person confirms."""

from connectors.warehouse.merge.merge_batch import MergeBatch
from connectors.warehouse.runs import ledger
from connectors.warehouse.storage.connection import Connection
from models.removal import ACCOUNTS_CONFIRM_AFTER_HOURS as _HOURS
from models.removal import ACCOUNTS_LIMIT
from models.runs import RunWarning

REMOVED = "accounts_removed"

_ACCEPTED = """
SELECT EXISTS (FROM core.runs SEMI JOIN finished AS f ON f.resource = 'accounts' AND f.run_id = runs.run_id
WHERE accept_removals)
"""

# An account that another scan has listed since this one began is not missing: it may be on a page that this scan had
# passed already. An empty catalogue misses nothing, unless a person accepts that. A time after the end of this scan is
# from a clock that was ahead, and is replaced.
_MISSED = f"""
SELECT
    a.account_id, w.run_id, least(p.missing_since, w.complete_at) AS missing_since,
    {{accepted}} OR coalesce(w.started_at >= p.missing_since + INTERVAL {_HOURS} HOUR, false) AS is_gone
FROM core.accounts AS a
JOIN finished AS w
    ON w.resource = 'accounts' AND a.removed_at IS NULL AND a.seen_seq < w.began_seq
LEFT JOIN ops.missing_accounts AS p ON p.account_id = a.account_id
WHERE {{accepted}} OR EXISTS (FROM core.accounts AS listed WHERE listed.seen_seq >= w.began_seq)
"""  # noqa: S608

_MARK = (
    """
UPDATE core.accounts SET removed_at = g.missing_since FROM {gone} AS g WHERE accounts.account_id = g.account_id
""",
    """
UPDATE core.account_status_history AS h SET valid_to = g.missing_since
FROM {gone} AS g WHERE h.account_id = g.account_id AND h.valid_to IS NULL
""",
    """
INSERT INTO core.account_status_history (account_id, status, valid_from)
SELECT account_id, 'removed', missing_since FROM {gone} ORDER BY account_id
""",
)

_REMEMBER = (
    "DELETE FROM ops.missing_accounts WHERE account_id IN (SELECT account_id FROM {missed})",
    "INSERT INTO ops.missing_accounts SELECT account_id, missing_since FROM {missed} WHERE NOT is_gone",
)


def mark_accounts_removed(batch: MergeBatch) -> str | None:
    """Mark accounts as removed that the scan of the catalogue in `finished`, if any, and an earlier one did not list.

    The scan must begin at least 12 hours after the end of the earlier one. If its run has `accept_removals`, no earlier
    scan is needed. Returns a relation with the marked accounts and the run that missed them (`run_id`), or None.
    """
    accepted = bool(batch.value(_ACCEPTED))
    missed = batch.table("missed_accounts", _MISSED, accepted=accepted)
    if not batch.is_any(missed):
        return None
    gone = batch.table("gone_accounts", "FROM {missed} WHERE is_gone", missed=missed)
    [(count, run_id, since)] = batch.rows(
        "SELECT count(*), any_value(run_id), min(missing_since) FROM {gone}", gone=gone
    )
    if count:
        batch.run(*_MARK, gone=gone)
        why = f"catalogues at least {_HOURS} hours apart, the first of {since:%Y-%m-%d %H:%M} UTC, did not list them"
        if accepted:
            why = "they are not in the catalogue, and --accept-removals was given"
        detail = f"{count:,} {'account was' if count == 1 else 'accounts were'} marked as removed: {why}."
        ledger.warn(batch.connection, run_id, RunWarning(REMOVED, count, detail))
    batch.run(*_REMEMBER, missed=missed)
    return gone


# Pages of a later scan that is not complete may list accounts again after an empty catalogue.
_MISSING = """
SELECT
    (SELECT count(*) FROM ops.missing_accounts), count(*),
    coalesce(bool_and(w.items = 0 AND a.seen_seq < w.seq), false) AS is_empty
FROM core.accounts AS a LEFT JOIN core.completed_scans AS w ON w.resource = 'accounts'
WHERE a.removed_at IS NULL
"""


def missing_accounts(connection: Connection) -> RunWarning | None:
    """Return a warning about the accounts that the catalogue misses, and that are not removed yet; None without any.

    It makes the run partial if they are more than a tenth of the known accounts, or the catalogue is empty.
    """
    missing, known, is_empty = connection.db.execute(_MISSING).fetchall()[0]
    if is_empty:
        missing = known
    if not missing:
        return None
    confirms = f"a sync at least {_HOURS} hours later marks them as removed if they are still missing"
    return RunWarning(
        "accounts_missing",
        missing,
        f"{missing:,} of {known:,} known accounts {'is' if missing == 1 else 'are'} missing from the catalogue"
        f"{', which is empty' if is_empty else ''}, and not marked as removed yet.",
        "check which accounts the API key can access, and the address. If the accounts were really removed, run"
        f" `gramhouse sync --accept-removals`{'' if is_empty else f'; {confirms}'}.",
        makes_partial=is_empty or missing > ACCOUNTS_LIMIT * known,
    )

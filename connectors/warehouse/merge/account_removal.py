"""Runs the steps that decide which accounts are removed, and warns.

They are those that two complete catalogues did not list, or that a person confirms.
"""

from connectors.warehouse.merge.steps import Steps
from connectors.warehouse.runs import ledger
from connectors.warehouse.storage.connection import Connection
from models.removal import ACCOUNTS_CONFIRM_AFTER_HOURS as _HOURS
from models.removal import ACCOUNTS_LIMIT
from models.runs import RunWarning

REMOVED = "accounts_removed"

_SUMMARY = """
SELECT
    count(*), count(*) FILTER (is_gone), any_value(run_id), min(missing_since) FILTER (is_gone),
    coalesce(bool_or(is_accepted), false)
FROM missed_accounts
"""


def mark_accounts_removed(connection: Connection, steps: Steps) -> None:
    """Mark accounts as removed that the scan of the catalogue in `finished`, if any, and an earlier one did not list.

    The scan must begin at least 12 hours after the end of the earlier one. If its run has `accept_removals`, no earlier
    scan is needed.
    """
    steps.run("missed_accounts")
    [(missed, gone, run_id, since, is_accepted)] = connection.db.execute(_SUMMARY).fetchall()
    if missed:
        steps.run("account_removals")
    if gone:
        why = f"catalogues at least {_HOURS} hours apart, the first of {since:%Y-%m-%d %H:%M} UTC, did not list them"
        if is_accepted:
            why = "they are not in the catalogue, and --accept-removals was given"
        detail = f"{gone:,} {'account was' if gone == 1 else 'accounts were'} marked as removed: {why}."
        ledger.warn(connection, run_id, RunWarning(REMOVED, gone, detail))


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

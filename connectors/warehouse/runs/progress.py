"""State that a run reads before it resumes: checkpoints, cooldowns, accounts already listed."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from connectors.warehouse.storage.connection import Connection
from models.checkpoint import Checkpoint, RunKind, ScanState
from models.partition import Partition

# One parameter for all ids, because each parameter is slow in DuckDB's client (docs/decisions/duckdb.md).
_CHECKPOINTS = """
SELECT
    resource, account_id, surface, state, scan_id, run_id, started_at, updated_at, cursor, pages, items,
    coalesce(repeated_pages, 0) AS repeated_pages, coalesce(empty_pages, 0) AS empty_pages, known_seq,
    coalesce(known_run, 0) AS known_run, read_to, order_broken_by, full_share,
    coalesce(rejected, 0) AS rejected
FROM ops.checkpoints
WHERE resource = ? AND run_kind = ? AND account_id IN (SELECT unnest(from_json(?, '["VARCHAR"]')))
"""


def checkpoints(
    connection: Connection, resource: str, account_ids: Collection[str], run_kind: RunKind = "sync"
) -> Mapping[Partition, Checkpoint]:
    """Return the last checkpoint by runs of this kind, for each partition of these accounts that has one."""
    found: dict[Partition, Checkpoint] = {}
    rows = connection.db.execute(_CHECKPOINTS, [resource, run_kind, json.dumps(list(account_ids))])
    names = [name for name, *_ in rows.description][4:]
    for resource_, account_id, surface, state, *others in rows.fetchall():
        partition = Partition(resource_, account_id, surface)
        columns = dict(zip(names, others, strict=True))
        found[partition] = Checkpoint(partition=partition, state=ScanState(state), run_kind=run_kind, **columns)
    return found


# The limit is the most items that a scan remembers (`Progress` in connectors/source/pagination.py).
_SEEN = """
SELECT media_id FROM ops.seen WHERE scan_id = $1 AND media_id <> ''
UNION ALL
SELECT account_id FROM core.accounts WHERE scan_id = $1
LIMIT 100000
"""


def seen(connection: Connection, scan_id: str) -> Sequence[str]:
    """Return the ids of the items that an unfinished scan has received in merged pages."""
    return [item_id for (item_id,) in connection.db.execute(_SEEN, [scan_id]).fetchall()]


def cooldowns(connection: Connection, *, now: datetime) -> Mapping[str, datetime]:
    """Return the end of each tenant scope's cooldown; delete those that are over."""
    connection.db.execute("DELETE FROM ops.cooldowns WHERE resume_after <= ?", [now])
    return dict(connection.db.execute("SELECT scope, max(resume_after) FROM ops.cooldowns GROUP BY scope").fetchall())


def lift_cooldowns(connection: Connection, *, after: datetime, until: datetime, now: datetime) -> None:
    """Let cooldowns that end after `after`, and not later than `until`, end now, also in the outcomes of runs."""
    connection.db.execute("DELETE FROM ops.cooldowns WHERE resume_after > $1 AND resume_after <= $2", [after, until])
    # Without `until`: outcomes have the same times as their cooldowns only to within the drift of clocks.
    connection.db.execute("UPDATE core.run_outcomes SET resume_after = $2 WHERE resume_after > $1", [after, now])


_LISTED = """
SELECT account_id, status, listed_as, unknown_status FROM core.accounts WHERE scan_id = ? ORDER BY account_id
"""


def listed(connection: Connection, scan_id: str) -> list[tuple[str, str, str | None, str | None]]:
    """Return the accounts that a scan of the catalogue has listed, as far as merged.

    For each: its id, its status, the API's spelling of the id if it differs, and the listed status if it is unknown.
    """
    return connection.db.execute(_LISTED, [scan_id]).fetchall()

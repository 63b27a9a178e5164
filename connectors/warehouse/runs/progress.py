"""State that a run reads before it resumes: checkpoints, cooldowns, accounts already listed."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, func, select, text

from models.checkpoint import Checkpoint, RunKind, ScanState
from models.partition import Partition
from models.tables import core_accounts, ops_checkpoints, ops_cooldowns


def checkpoints(
    connection: Connection, resource: str, account_ids: Collection[str], run_kind: RunKind = "sync"
) -> Mapping[Partition, Checkpoint]:
    """Return the last checkpoint by runs of this kind, for each partition of these accounts that has one."""
    # One parameter for all ids, because each parameter is slow in DuckDB's client (docs/decisions/0004).
    wanted = text("SELECT unnest(from_json(:account_ids, '[\"VARCHAR\"]'))").bindparams(
        account_ids=json.dumps(list(account_ids))
    )
    table = ops_checkpoints.c
    rank = (
        func.row_number()
        .over(partition_by=(table.resource, table.account_id, table.surface), order_by=table.seq.desc())
        .label("rank")
    )
    ours = (table.resource == resource, table.run_kind == run_kind, table.account_id.in_(wanted))
    ranked = select(ops_checkpoints, rank).where(*ours).subquery()
    found: dict[Partition, Checkpoint] = {}
    for row in connection.execute(select(ranked).where(ranked.c.rank == 1)).mappings():
        partition = Partition(row["resource"], row["account_id"], row["surface"])
        found[partition] = Checkpoint(
            partition=partition,
            scan_id=row["scan_id"],
            run_id=row["run_id"],
            started_at=row["started_at"],
            updated_at=row["updated_at"],
            cursor=row["cursor"],
            pages=row["pages"],
            items=row["items"],
            state=ScanState(row["state"]),
            run_kind=run_kind,
            repeated_pages=row["repeated_pages"] or 0,
            empty_pages=row["empty_pages"] or 0,
            known_seq=row["known_seq"],
            known_run=row["known_run"] or 0,
            read_to=row["read_to"],
            order_broken_by=row["order_broken_by"],
            full_share=row["full_share"],
        )
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
    return connection.exec_driver_sql(_SEEN, (scan_id,)).scalars().all()


def cooldowns(connection: Connection, *, now: datetime) -> Mapping[str, datetime]:
    """Return the end of each tenant scope's cooldown; delete those that are over."""
    connection.execute(delete(ops_cooldowns).where(ops_cooldowns.c.resume_after <= now))
    until = func.max(ops_cooldowns.c.resume_after).label("until")
    rows = connection.execute(select(ops_cooldowns.c.scope, until).group_by(ops_cooldowns.c.scope))
    return {row.scope: row.until for row in rows}


def listed(connection: Connection, scan_id: str) -> list[tuple[str, str, str | None, str | None]]:
    """Return the accounts that a scan of the catalogue has listed, as far as merged.

    For each: its id, its status, the API's spelling of the id if it differs, and the listed status if it is unknown.
    """
    table = core_accounts.c
    rows = connection.execute(
        select(table.account_id, table.status, table.listed_as, table.unknown_status)
        .where(core_accounts.c.scan_id == scan_id)
        .order_by(core_accounts.c.account_id)
    )
    return [(row.account_id, row.status, row.listed_as, row.unknown_status) for row in rows]

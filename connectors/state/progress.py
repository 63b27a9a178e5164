"""What a run reads before it resumes: checkpoints and cooldowns."""

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import fields
from datetime import datetime

from sqlalchemy import Connection, delete, func, select, update

from models.checkpoint import Checkpoint, RunKind, ScanState
from models.feeds import CATALOGUE, Partition
from models.tables import checkpoints, cooldowns

_of = checkpoints.c

# The fields of a checkpoint that are columns of the same name.
_FIELDS = [one.name for one in fields(Checkpoint) if one.name not in ("partition", "state")]


def read_checkpoints(
    connection: Connection, account_ids: Collection[str], run_kind: RunKind = "sync"
) -> Mapping[Partition, Checkpoint]:
    """Return the last checkpoint by runs of this kind, for each partition of these accounts that has one.

    The catalogue's account is "".
    """
    wanted = func.json_each(json.dumps([*account_ids])).table_valued("value")
    query = select(checkpoints).where(_of.account_id.in_(select(wanted.c.value)), _of.run_kind == run_kind)
    found = {}
    for row in connection.execute(query).mappings():
        partition = Partition(row["resource"], row["account_id"], row["surface"])
        values = {name: row[name] for name in _FIELDS}
        found[partition] = Checkpoint(partition=partition, state=ScanState(row["state"]), **values)
    return found


def forget_order(connection: Connection) -> None:
    """Make open scans of feeds in order full ones, because the mapping of times or ids has changed."""
    # Only scans of feeds that may be in order read down to known items, or to a time.
    in_order = _of.known_seq.is_not(None) | _of.read_to.is_not(None)
    connection.execute(update(checkpoints).where(in_order).values(order_broken_by="", known_seq=None))


def delete_progress(connection: Connection, account_ids: Collection[str]) -> Mapping[str, int]:
    """Delete the checkpoints and cooldowns of accounts; return how many, by table.

    Also the checkpoint of an unfinished catalogue: its cursor is opaque, and may contain an account.
    """
    connection.execute(delete(checkpoints).where(_of.resource == CATALOGUE.resource, _of.cursor.is_not(None)))
    deleted = Counter[str]()
    for account_id in account_ids:
        of_scope = cooldowns.c.scope.endswith(f":{account_id}")
        for table, condition in ((checkpoints, _of.account_id == account_id), (cooldowns, of_scope)):
            deleted[table.name] += connection.execute(delete(table).where(condition)).rowcount
    return deleted


def read_cooldowns(connection: Connection, *, now: datetime) -> Mapping[str, datetime]:
    """Return the end of the cooldown of each rate-limit scope that must still wait."""
    query = select(cooldowns.c.scope, cooldowns.c.resume_after).where(cooldowns.c.resume_after > now)
    return {row.scope: row.resume_after for row in connection.execute(query)}


def lift_cooldowns(connection: Connection, *, after: datetime) -> None:
    """Delete the cooldowns that end after `after`."""
    connection.execute(delete(cooldowns).where(cooldowns.c.resume_after > after))

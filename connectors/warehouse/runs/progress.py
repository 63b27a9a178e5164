"""State that a run reads before it resumes: checkpoints, cooldowns, accounts already listed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime

from sqlalchemy import delete, func, select, update

from connectors.warehouse.storage.compiled import (
    among,
    core_accounts,
    core_outcomes,
    ops_checkpoints,
    ops_cooldowns,
    ops_seen,
    run,
)
from connectors.warehouse.storage.connection import Connection
from models.checkpoint import Checkpoint, RunKind, ScanState
from models.partition import Partition

_of_checkpoint = ops_checkpoints.c
_of_account = core_accounts.c

# The fields of a checkpoint that are columns of the same name; NULL is the default of the field.
_FIELDS = tuple(one.name for one in fields(Checkpoint) if one.name not in ("partition", "state", "run_kind"))


def checkpoints(
    connection: Connection, account_ids: Collection[str], run_kind: RunKind = "sync"
) -> Mapping[Partition, Checkpoint]:
    """Return the last checkpoint by runs of this kind, for each partition of these accounts that has one.

    The catalogue's account is "".
    """
    query = select(
        _of_checkpoint.resource,
        _of_checkpoint.account_id,
        _of_checkpoint.surface,
        _of_checkpoint.state,
        *(_of_checkpoint[name] for name in _FIELDS),
    ).where(
        _of_checkpoint.run_kind == run_kind,
        among(_of_checkpoint.account_id, account_ids),
    )
    found: dict[Partition, Checkpoint] = {}
    for resource, account_id, surface, state, *others in run(connection, query).fetchall():
        partition = Partition(resource, account_id, surface)
        columns = {name: value for name, value in zip(_FIELDS, others, strict=True) if value is not None}
        found[partition] = Checkpoint(partition=partition, state=ScanState(state), run_kind=run_kind, **columns)
    return found


# The most items that a scan remembers (`Progress` in connectors/source/pagination.py).
_MOST_SEEN = 100_000


def seen(connection: Connection, scan_id: str) -> Sequence[str]:
    """Return the ids, as the API wrote them, of the items that an unfinished scan has received in merged pages."""
    media = select(ops_seen.c.media_id).where(ops_seen.c.scan_id == scan_id, ops_seen.c.media_id != "")
    listed_as = func.coalesce(_of_account.listed_as, _of_account.account_id)
    accounts = select(listed_as).where(_of_account.scan_id == scan_id)
    return [item_id for (item_id,) in run(connection, media.union_all(accounts).limit(_MOST_SEEN)).fetchall()]


def cooldowns(connection: Connection, *, now: datetime) -> Mapping[str, datetime]:
    """Return the end of each rate-limit scope's cooldown; delete those that are over."""
    scope, resume_after = ops_cooldowns.c.scope, ops_cooldowns.c.resume_after
    run(connection, delete(ops_cooldowns).where(resume_after <= now))
    return dict(run(connection, select(scope, func.max(resume_after)).group_by(scope)).fetchall())


def lift_cooldowns(connection: Connection, *, after: datetime, until: datetime, now: datetime) -> None:
    """Let cooldowns that end after `after`, and not later than `until`, end now, also in the outcomes of runs."""
    ends = ops_cooldowns.c.resume_after
    run(connection, delete(ops_cooldowns).where(ends > after, ends <= until))
    # Without `until`: outcomes have the same times as their cooldowns only to within the drift of clocks.
    run(connection, update(core_outcomes).where(core_outcomes.c.resume_after > after).values(resume_after=now))


def listed(connection: Connection, scan_id: str) -> list[tuple[str, str, str | None, str | None]]:
    """Return the accounts that a scan of the catalogue has listed, as far as merged.

    For each: its id, its status, the API's spelling of the id if it differs, and the listed status if it is unknown.
    """
    columns = (_of_account.account_id, _of_account.status, _of_account.listed_as, _of_account.unknown_status)
    query = select(*columns).where(_of_account.scan_id == scan_id).order_by(_of_account.account_id)
    return run(connection, query).fetchall()


def listed_spellings(connection: Connection) -> Mapping[str, str]:
    """Return the API's spelling of ids for which it differs from the stored one; usually there are none."""
    query = select(_of_account.account_id, _of_account.listed_as).where(_of_account.listed_as.is_not(None))
    return dict(run(connection, query).fetchall())


def stored_statuses(connection: Connection, account_ids: Collection[str]) -> Mapping[str, str]:
    """Return the last valid status of these accounts, by their ids as stored; unknown accounts are left out."""
    query = select(_of_account.account_id, _of_account.status).where(among(_of_account.account_id, account_ids))
    return dict(run(connection, query).fetchall())

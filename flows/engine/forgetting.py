"""Forgets an account: erases it from the warehouse, the raw store, the snapshot, the report and the bucket."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from connectors.buckets import BucketError
from connectors.state.database import SqlConnection
from connectors.state.identity import (
    begin_operation,
    end_operation,
    mark_forgotten,
    read_forgotten,
    read_operations,
    unmark_forgotten,
)
from connectors.state.progress import delete_progress
from connectors.state.runs import redact_texts
from connectors.warehouse.maintenance.forget import count_items, erase, find_account
from connectors.warehouse.storage.errors import WarehouseError
from flows.clock import new_id
from flows.config.errors import SettingsError
from flows.config.settings import Settings
from flows.engine.files import open_existing_state
from flows.engine.publishing import publish_snapshot
from flows.engine.upkeep import open_existing
from flows.engine.warehouse import Warehouse
from flows.reporting.page.write import is_report
from flows.reporting.progress import notices
from models.erasure import ACTIVITY, OPERATION, Account, Erasure, from_text, to_text

NOT_REACHED = (
    "backups, exports, copies and all other files, also those beside the warehouse and on other machines",
    "data of other accounts that mentions it, and names of fields that are called like it",
    "older versions of objects that the bucket keeps",
    "Prefect's database: parameters, logs and artifacts of runs",
    "log files, and the output of earlier commands",
)
"""What may have an account, and was not looked into."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was erased, the files that were written again without it, and those that were deleted."""

    erased: Erasure
    rewritten: tuple[str, ...]
    removed_files: tuple[str, ...]


def _read_erasure(state: SqlConnection) -> Erasure:
    """Return what an interrupted erasure has left."""
    return from_text(read_operations(state).get(OPERATION))


async def _find(warehouse: Warehouse, text: str) -> tuple[Erasure, Account]:
    before, forgotten = await warehouse.read_state(_read_erasure), await warehouse.read_state(read_forgotten)
    return before, await warehouse.read(find_account, text, before, forgotten)


async def find_now(settings: Settings, text: str) -> tuple[Account, int]:
    """Return the account that would be forgotten, and the number of its items. Raises as `forget_now` does."""
    async with open_existing(settings, ACTIVITY) as (warehouse, _):
        _, account = await _find(warehouse, text)
        return account, await warehouse.read(count_items, account)


async def forget_now(settings: Settings, text: str) -> Receipt:
    """Erase the account with this id, name or public id everywhere.

    After an error or a kill, the same call completes it. Raises SelectionError if there is no such account or more than
    one, WarehouseBusy, WarehouseUnusable and BucketError.
    """
    try:
        return await _publish_without(settings, await _erase(settings, text))
    except (WarehouseError, BucketError, asyncio.CancelledError):
        with suppress(WarehouseError), open_existing_state(settings.warehouse) as state:
            if state is not None and OPERATION in state.read(read_operations):
                notices.warning("The account is not completely erased. Fix: run the same command again.")
        raise


async def _erase(settings: Settings, text: str) -> Erasure:
    """Erase an account, and what an interrupted erasure has left, from the warehouse and the raw store."""
    async with open_existing(settings, ACTIVITY, rewrites=True) as (warehouse, clock):
        files, now = warehouse.files, clock.now()
        before, account = await _find(warehouse, text)
        accounts = {one.account_id: one for one in (*before.accounts, account)}
        erasure = Erasure(tuple(accounts.values()), before.removed)
        erasure = await warehouse.write_state(_forget_in_state, erasure, now=now)
        return await warehouse.alone(
            erase, files.raw, erasure,
            on_counted=lambda counted: files.state.write(begin_operation, OPERATION, to_text(counted), now=now),
        )  # fmt: skip


def _forget_in_state(state: SqlConnection, erasure: Erasure, *, now: datetime) -> Erasure:
    for account in erasure.accounts:
        mark_forgotten(state, account.account_id, new_id(), at=now)
    redact_texts(state, erasure.redact)
    erasure = erasure.with_removed(delete_progress(state, erasure.ids))
    begin_operation(state, OPERATION, to_text(erasure), now=now)
    return erasure


async def _publish_without(settings: Settings, erased: Erasure) -> Receipt:
    """Replace the snapshot and the report, which still have what was erased, and the state's file."""
    snapshot, report = settings.snapshot_file(), settings.report_file()
    # A draft that a killed or running download of the old snapshot writes.
    snapshot.with_name(f".{snapshot.name}.download").unlink(missing_ok=True)
    had_report = is_report(report)
    async with open_existing(settings, ACTIVITY) as (warehouse, clock):
        files, now = warehouse.files, clock.now()
        published = await publish_snapshot(warehouse, settings, now=now, report=report if had_report else None)
        if is_removed := had_report and published.report is None:
            report.unlink()
        await warehouse.write_state(end_operation, OPERATION)
        files.state.erase()
    written = [files.path, files.state.path, snapshot, published.report, settings.snapshot_url()]
    written += [files.raw] if "raw_versions" in erased.removed else []
    rewritten = tuple(str(each) for each in written if each is not None)
    return Receipt(erased, rewritten, (str(report),) if is_removed else ())


async def undo_now(settings: Settings, account_id: str) -> bool:
    """Let syncs import a forgotten account again; return whether it was forgotten.

    Raises SettingsError if it is not completely erased yet, WarehouseBusy and WarehouseUnusable.
    """
    async with open_existing(settings, ACTIVITY) as (warehouse, _):
        erasure = await warehouse.read_state(_read_erasure)
        if any(account_id.lower() in one.words for one in erasure.accounts):
            raise SettingsError(
                "This account is not completely erased yet. Fix: run `gramhouse forget` again, then --undo."
            )
        return await warehouse.write_state(unmark_forgotten, account_id)

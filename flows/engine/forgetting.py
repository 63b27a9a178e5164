"""Forgets an account: erases it from the warehouse, the raw store, the snapshot, the report and the bucket."""

from dataclasses import dataclass
from datetime import datetime

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
from flows.clock import new_id
from flows.config.errors import SettingsError
from flows.config.settings import Settings
from flows.engine.publishing import publish_snapshot
from flows.engine.upkeep import open_existing
from flows.engine.warehouse import Warehouse
from flows.reporting.page.write import is_report
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
    """Erase the account with this id, name or public id everywhere, and what an interrupted erasure has left.

    After an error or a kill, the same call completes it. Raises SelectionError if there is no such account or more than
    one, WarehouseBusy, WarehouseUnusable and BucketError.
    """
    async with open_existing(settings, ACTIVITY, rewrites=True) as (warehouse, clock):
        files, now = warehouse.files, clock.now()
        before, account = await _find(warehouse, text)
        accounts = {one.account_id: one for one in (*before.accounts, account)}
        erasure = Erasure(tuple(accounts.values()), before.removed)
        erasure = await warehouse.write_state(_forget_in_state, erasure, now=now)
        erasure = await warehouse.alone(
            erase, files.raw, erasure,
            on_counted=lambda counted: files.state.write(begin_operation, OPERATION, to_text(counted), now=now),
        )  # fmt: skip
    # The file has been written again. The snapshot and the report still have what was erased, and so has the state's
    # file, and a draft that a killed or running download of the old snapshot writes.
    snapshot, report = settings.snapshot_file(), settings.report_file()
    snapshot.with_name(f".{snapshot.name}.download").unlink(missing_ok=True)
    had_report = is_report(report)
    async with open_existing(settings, ACTIVITY) as (warehouse, clock):
        files, kept = warehouse.files, report if had_report else None
        published = await publish_snapshot(warehouse, settings, now=clock.now(), report=kept)
        if is_removed := had_report and published.report is None:
            report.unlink()
        await warehouse.write_state(end_operation, OPERATION)
        files.state.erase()
    written = [files.path, files.state.path, snapshot, published.report, settings.snapshot_url()]
    written += [files.raw] if "raw_versions" in erasure.removed else []
    rewritten = tuple(str(each) for each in written if each is not None)
    return Receipt(erasure, rewritten, (str(report),) if is_removed else ())


def _forget_in_state(state: SqlConnection, erasure: Erasure, *, now: datetime) -> Erasure:
    for account in erasure.accounts:
        mark_forgotten(state, account.account_id, new_id(), at=now)
    redact_texts(state, erasure.redact)
    erasure = erasure.with_removed(delete_progress(state, erasure.ids))
    begin_operation(state, OPERATION, to_text(erasure), now=now)
    return erasure


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

"""Forgets an account: erases it from the warehouse, the raw store, the snapshot, the report and the bucket."""

import asyncio
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from connectors.buckets.address import BucketError
from connectors.state.database import SqlConnection, State
from connectors.state.forgotten import mark_forgotten, read_forgotten, unmark_forgotten
from connectors.state.operations import begin_operation, end_operation, read_operations
from connectors.state.progress import delete_progress
from connectors.state.runs import redact_texts
from connectors.warehouse.maintenance.compact_file import check_room, rewrite_file
from connectors.warehouse.maintenance.forget import count_items, erase, find_account
from connectors.warehouse.storage.errors import WarehouseError
from flows.clock import SystemClock, new_id
from flows.config.errors import SettingsError
from flows.config.settings import Settings
from flows.engine.files import Files, check_exists, lock_state, open_existing_state, open_pair
from flows.engine.resources import check_writable, wait_for_turn
from flows.engine.upkeep import open_existing, publish_opened
from flows.reporting.page.write import is_report
from flows.reporting.progress import notices
from flows.reporting.recording import record_failed_start
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


def _locked(settings: Settings, now: datetime) -> AbstractContextManager[State]:
    check_exists(settings.warehouse)
    return lock_state(settings.warehouse, ACTIVITY, now=now)


def _opened(settings: Settings, state: State) -> AbstractContextManager[Files]:
    mapping, paths = settings.media_mapping(), settings.page_paths()
    return open_pair(state, settings.warehouse, raw=settings.raw, mapping=mapping, paths=paths)


def _find(files: Files, text: str) -> tuple[Erasure, Account]:
    before = from_text(files.state.read(read_operations).get(OPERATION))
    return before, find_account(files.db, text, before, files.state.read(read_forgotten))


def find_now(settings: Settings, text: str) -> tuple[Account, int]:
    """Return the account that would be forgotten, and the number of its items. Raises as `forget_now` does."""
    with _locked(settings, SystemClock().now()) as state, _opened(settings, state) as files:
        _, account = _find(files, text)
        return account, count_items(files.db, account)


async def forget_now(settings: Settings, text: str) -> Receipt:
    """Erase the account with this id, name or public id everywhere.

    After an error or a kill, the same call completes it. Raises SelectionError if there is no such account or more than
    one, WarehouseBusy, WarehouseUnusable and BucketError.
    """
    try:
        return await _forget(settings, text)
    except (WarehouseError, BucketError, asyncio.CancelledError):
        with suppress(WarehouseError), open_existing_state(settings.warehouse) as state:
            if state is not None and OPERATION in state.read(read_operations):
                notices.warning("The account is not completely erased. Fix: run the same command again.")
        raise


def _forget_in_state(state: SqlConnection, erasure: Erasure, *, now: datetime) -> Erasure:
    for account in erasure.accounts:
        mark_forgotten(state, account.account_id, new_id(), at=now)
    redact_texts(state, erasure.redact)
    erasure = erasure.with_removed(delete_progress(state, erasure.ids))
    begin_operation(state, OPERATION, to_text(erasure), now=now)
    return erasure


def _erase(settings: Settings, text: str, now: datetime) -> tuple[Erasure, Path]:
    """Erase an account, and what an interrupted erasure has left; return what, and the folder of the raw store."""
    with _locked(settings, now) as state:
        with _opened(settings, state) as files:
            before, account = _find(files, text)
            check_room(settings.warehouse)
            accounts = {one.account_id: one for one in (*before.accounts, account)}
            erasure = state.write(_forget_in_state, Erasure(tuple(accounts.values()), before.removed), now=now)
            erased = erase(
                files.db, files.raw, erasure,
                on_counted=lambda counted: state.write(begin_operation, OPERATION, to_text(counted), now=now),
            )  # fmt: skip
        rewrite_file(settings.warehouse)
        return erased, files.raw


async def _forget(settings: Settings, text: str) -> Receipt:
    snapshot, report = settings.snapshot_file(), settings.report_file()
    now = SystemClock().now()
    with record_failed_start(ACTIVITY, {"warehouse": settings.warehouse, "snapshot": settings.snapshot}):
        check_writable(settings)
        await wait_for_turn(settings, ACTIVITY)
        erased, raw_folder = await asyncio.to_thread(_erase, settings, text, now)
    # A draft that a killed or running download of the old snapshot writes.
    snapshot.with_name(f".{snapshot.name}.download").unlink(missing_ok=True)
    had_report, url = is_report(report), settings.snapshot_url()
    async with open_existing(settings, ACTIVITY) as opened:
        published = await publish_opened(opened, settings, report=report if had_report else None)
        if had_report and published.report is None:
            report.unlink()
    with _locked(settings, now) as state:
        state.write(end_operation, OPERATION)
        state.erase()
        written = [settings.warehouse, state.path, snapshot, published.report, url]
    if "raw_versions" in erased.removed:
        written.append(raw_folder)
    return Receipt(
        erased,
        tuple(str(each) for each in written if each is not None),
        (str(report),) if had_report and published.report is None else (),
    )


async def undo_now(settings: Settings, account_id: str) -> bool:
    """Let syncs import a forgotten account again; return whether it was forgotten.

    Raises SettingsError if it is not completely erased yet, WarehouseBusy and WarehouseUnusable.
    """
    async with open_existing(settings, ACTIVITY) as opened:
        erasure = from_text((await opened.warehouse.read_state(read_operations)).get(OPERATION))
        if any(account_id.lower() in one.words for one in erasure.accounts):
            raise SettingsError(
                "This account is not completely erased yet. Fix: run `gramhouse forget` again, then --undo."
            )
        return await opened.warehouse.write_state(unmark_forgotten, account_id)

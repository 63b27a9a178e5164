"""Forgets an account: erases it from the warehouse, the raw store, the snapshot, the report and the bucket."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from connectors.buckets.address import BucketError, open_snapshot_bucket
from connectors.warehouse.maintenance.forget import erase, find
from connectors.warehouse.maintenance.pending import ACTIVITY, Account, Erasure, finish, pending, pending_path
from connectors.warehouse.maintenance.traces import Found, files_of, search
from connectors.warehouse.runs.forgotten import unmark_forgotten
from connectors.warehouse.runs.status_file import status_path
from connectors.warehouse.storage.errors import WarehouseError
from connectors.warehouse.storage.holder import hold
from flows.clock import SystemClock, new_id
from flows.config.errors import SettingsError
from flows.config.settings import Settings
from flows.engine.resources import check_writable, wait_for_turn
from flows.engine.upkeep import open_existing, publish_opened
from flows.reporting.page.write import is_report
from flows.reporting.progress import notices
from flows.reporting.recording import recorded_start

NOT_REACHED = (
    "exports, reports written to other files, and copies of the snapshot on other machines",
    "backups of the warehouse, the raw store and the snapshot",
    "older versions of objects that the bucket keeps",
    "Prefect's database: parameters, logs and artifacts of runs",
    "log files, and the output of earlier commands",
)
"""What may have an account, and is not known to gramhouse."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was erased, the files that were written again without it, and where its ids and names were searched for.

    `removed_files` are those that were deleted; in a bucket, the keys are not known.
    """

    erased: Erasure
    rewritten: tuple[str, ...]
    removed_files: tuple[str, ...]
    bucket_files: int
    searched: Mapping[Path, Found]

    @property
    def found(self) -> Mapping[Path, Found]:
        """Return the files in which something was found."""
        return {path: found for path, found in self.searched.items() if found}


def find_now(settings: Settings, text: str) -> tuple[Account, int]:
    """Return the account that would be forgotten, and the number of its items. Raises as `forget_now` does."""
    now, mapping = SystemClock().now(), settings.media_mapping()
    return find(settings.warehouse, text, now=now, pause=time.sleep, raw=settings.raw, mapping=mapping)


async def forget_now(settings: Settings, text: str) -> Receipt:
    """Erase the account with this id, name or public id everywhere, and search all files for it.

    After an error or a kill, the same call completes it. Raises SelectionError if there is no such account or more than
    one, WarehouseBusy, WarehouseUnusable and BucketError.
    """
    try:
        return await _forget(settings, text)
    except (WarehouseError, BucketError, asyncio.CancelledError):
        if pending_path(settings.warehouse).exists():
            notices.warning("The account is not completely erased. Fix: run the same command again.")
        raise


async def _forget(settings: Settings, text: str) -> Receipt:
    warehouse, snapshot, report = settings.warehouse, settings.snapshot_file(), settings.report_file()
    now = SystemClock().now()
    with recorded_start(ACTIVITY, {"warehouse": warehouse, "snapshot": settings.snapshot}):
        check_writable(settings)
        await wait_for_turn(settings, ACTIVITY)
        erased, raw_folder = await asyncio.to_thread(
            erase,
            warehouse,
            text,
            now=now,
            pause=time.sleep,
            raw=settings.raw,
            mapping=settings.media_mapping(),
            new_salt=new_id(),
        )
    # A draft that a killed or running download of the old snapshot writes, and the record of a failed start.
    for left in (snapshot.with_name(f".{snapshot.name}.download"), status_path(warehouse)):
        left.unlink(missing_ok=True)
    had_report, bucket_files = is_report(report), 0
    async with open_existing(settings, ACTIVITY) as opened:
        published = await publish_opened(opened, settings, report=report if had_report else None)
        if had_report and published.report is None:
            report.unlink()
        if (url := settings.snapshot_url()) is not None:
            bucket_files = await open_snapshot_bucket(url).delete_superseded()
    since = now.isoformat(timespec="seconds")
    with hold(warehouse, ACTIVITY, since=since, pause=time.sleep):
        files = [path for path in files_of(warehouse, snapshot, raw_folder, report) if path != pending_path(warehouse)]
        searched = await asyncio.to_thread(search, files, erased.accounts)
        finish(warehouse)
    written = (warehouse, *((raw_folder,) if "raw_versions" in erased.removed else ()), snapshot, published.report, url)
    return Receipt(
        erased,
        tuple(str(each) for each in written if each is not None),
        (str(report),) if had_report and published.report is None else (),
        bucket_files,
        searched,
    )


async def undo_now(settings: Settings, account_id: str) -> bool:
    """Let syncs import a forgotten account again; return whether it was forgotten.

    Raises SettingsError if it is not completely erased yet, WarehouseBusy and WarehouseUnusable.
    """
    if any(account_id.lower() in one.words for one in pending(settings.warehouse).accounts):
        raise SettingsError(
            "This account is not completely erased yet. Fix: run `gramhouse forget` again, then --undo."
        )
    async with open_existing(settings, ACTIVITY) as opened:
        return await opened.warehouse.write(unmark_forgotten, account_id)

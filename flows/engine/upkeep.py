"""Commands on a warehouse without API requests: publish, repair, compact, rebuild, forget. Each opens it in one way."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from connectors.state.database import SqlConnection
from connectors.state.identity import (
    begin_operation,
    end_operation,
    mark_forgotten,
    move_times,
    read_forgotten,
    read_identity,
    read_operations,
    unmark_forgotten,
)
from connectors.state.inbox import count_landings, delete_progress, forget_order, land, lift_cooldowns
from connectors.state.runs import begin_command, end_run, redact_texts
from connectors.warehouse.maintenance.retention import find_agreed_time
from connectors.warehouse.storage.errors import WarehouseError, WarehouseUnusable
from flows.clock import SystemClock, new_id
from flows.config.errors import SettingsError
from flows.config.settings import Settings
from flows.engine.files import open_files
from flows.engine.publishing import publish_snapshot
from flows.engine.resources import check_writable, steady_clock
from flows.engine.warehouse import Warehouse, open_warehouse
from flows.reporting.recording import STOPPED, record_failed_start, short
from models.checkpoint import ScopeCooldown
from models.erasure import ACTIVITY, OPERATION, Account, Erasure, from_text, to_text
from models.files import Ahead, Clock, service_refusal
from models.runs import LONG_COOLDOWN, RunState
from models.selection import SelectionError

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


@asynccontextmanager
async def open_existing(
    settings: Settings, activity: str, *, trusts_clock: bool = False, rewrites: bool = False
) -> AsyncIterator[tuple[Warehouse, Clock]]:
    """Open the warehouse, which must exist, for a command; yield the clock for what it stores, too.

    The command is recorded as running, and then how the block ended. Raises WarehouseUnusable also if the clock is
    behind, unless this `trusts_clock`, and otherwise as `open_warehouse`.
    """
    clock, kind = SystemClock(), activity.split()[1]
    async with AsyncExitStack() as stack:
        with record_failed_start(kind, settings.warehouse):
            if not settings.warehouse.exists():
                fix = "Fix: `gramhouse sync` creates it."
                raise WarehouseUnusable(f"There is no warehouse at {settings.warehouse} yet. {fix}")
            check_writable(settings)
            warehouse = await stack.enter_async_context(open_warehouse(settings, activity, clock, rewrites=rewrites))
        await warehouse.write_state(begin_command, kind, pid=os.getpid(), now=clock.now())
        state, detail = RunState.COMPLETE, None
        try:
            yield warehouse, clock if trusts_clock else await steady_clock(warehouse, clock)
        except SelectionError:
            raise
        except Exception as error:
            state, detail = RunState.FAILED, short(error)
            raise
        except (asyncio.CancelledError, KeyboardInterrupt):
            state, detail = RunState.INTERRUPTED, STOPPED
            raise
        finally:
            # The first error is the one that matters.
            with suppress(WarehouseUnusable):
                await warehouse.write_state(end_run, None, state, now=clock.now(), detail=detail)


async def publish_now(settings: Settings, *, may_show: bool = False) -> int:
    """Publish all landed pages; return the snapshot's size in bytes. With `may_show` it may show what the last one hid.

    Raises as `open_existing` and `publish_snapshot` do; so do all functions below that publish.
    """
    async with open_existing(settings, "gramhouse publish") as (warehouse, clock):
        return (await publish_snapshot(warehouse, settings, now=clock.now(), may_show=may_show)).snapshot_bytes


async def repair_times(warehouse: Warehouse, *, now: datetime) -> Ahead | None:
    """Move times in the future to now, in the raw store, the warehouse and the state; return what they were.

    After a kill, the rest is moved by another repair. Raises WarehouseUnusable.
    """
    from connectors.warehouse.maintenance.clock import repair_clock, repair_raw  # noqa: PLC0415 - imports pyarrow

    await warehouse.alone(lambda _: repair_raw(warehouse.files.raw, now=now))
    seq = 1 + await warehouse.write_state(count_landings, 1)
    found = [
        await warehouse.write(repair_clock, seq=seq, now=now),
        await warehouse.write_state(move_times, now=now),
    ]
    moved = [each for each in found if each is not None]
    return Ahead(sum(each.count for each in moved), max(each.last for each in moved)) if moved else None


async def repair_now(settings: Settings, *, lift: bool) -> Ahead | None:
    """Move stored times in the future to now; with `lift`, also let cooldowns of more than `LONG_COOLDOWN` end.

    Publish if anything changed; return what the times were. This trusts the clock.
    """
    from connectors.warehouse.maintenance.clock import lift_waits  # noqa: PLC0415 - imports pyarrow

    async with open_existing(settings, "gramhouse doctor --repair", trusts_clock=True) as (warehouse, clock):
        now = clock.now()
        moved = await repair_times(warehouse, now=now)
        if lift:
            await warehouse.write_state(lift_cooldowns, after=now + LONG_COOLDOWN)
            await warehouse.write(lift_waits, after=now + LONG_COOLDOWN, now=now)
        if moved is not None or lift:
            await publish_snapshot(warehouse, settings, now=now)
        return moved


def keep_cooldown(settings: Settings, scope: str, seconds: float) -> bool:
    """Store how long a rate-limit scope must wait, so that runs do; return whether it could be stored.

    It cannot be if there is no warehouse yet, if it belongs to another service, or if another process writes.
    """
    now = SystemClock().now()
    if not settings.warehouse.exists():
        return False
    try:
        with open_files(settings, "gramhouse doctor", now=now) as files:
            if service_refusal(files.state.read(read_identity).base_url, settings.address()) is not None:
                return False
            until = now + timedelta(seconds=seconds)
            files.state.write(land, [ScopeCooldown(scope, until, now)])
    except WarehouseError:
        return False
    return True


async def compact_now(settings: Settings) -> tuple[int, int, Mapping[str, int]]:
    """Rewrite the warehouse file compactly and sorted, and combine small parts of the raw store.

    Return the file's size in bytes before and after, and the result for the raw store.

    A kill at any time leaves both as they were, or partly tidied. Raises WarehouseUnusable also when the disk has no
    space for a second copy.
    """
    from connectors.warehouse.maintenance.compact_parts import compact_parts  # noqa: PLC0415 - imports pyarrow

    async with open_existing(settings, "gramhouse compact", rewrites=True) as (warehouse, clock):
        now, until, before = clock.now(), None, settings.warehouse.stat().st_size
        if settings.keep_raw is not None:
            until = await warehouse.read(find_agreed_time, now=now) - timedelta(days=settings.keep_raw)
        parts = await warehouse.alone(compact_parts, warehouse.files.raw, now=now, before=until)
    return before, settings.warehouse.stat().st_size, parts


async def count_paths_now(settings: Settings) -> dict[str, Any]:
    """Return how many items have a value at each path of the settings' mapping, and change nothing."""
    from connectors.warehouse.maintenance.rebuild import count_paths  # noqa: PLC0415 - imports pyarrow

    async with open_existing(settings, "gramhouse rebuild --dry-run") as (warehouse, _):
        return await warehouse.read(count_paths, warehouse.files.raw, settings.media_mapping())


async def rebuild_now(settings: Settings, *, force: bool) -> tuple[dict[str, Any], int]:
    """Read the raw store and the quarantine again with the settings' mapping, and publish.

    Return the result, and the snapshot's size in bytes. If it is stopped before its end, nothing has changed.
    """
    from connectors.warehouse.maintenance.rebuild import order_of, rebuild  # noqa: PLC0415 - imports pyarrow

    async with open_existing(settings, "gramhouse rebuild") as (warehouse, clock):
        files, mapping = warehouse.files, settings.media_mapping()
        # Until it is deleted, the part of the raw store that it writes is known to be its own.
        await warehouse.write_state(begin_operation, "rebuild", now=clock.now())
        done = await warehouse.write(
            rebuild, files.raw, mapping, take=lambda number: files.state.write(count_landings, number), force=force
        )
        await warehouse.write_state(end_operation, "rebuild")
        if order_of(files.mapping) != order_of(mapping):
            await warehouse.write_state(forget_order)
        return done, (await publish_snapshot(warehouse, settings, now=clock.now())).snapshot_bytes


async def _find(warehouse: Warehouse, text: str) -> tuple[Erasure, Account]:
    """Return what an interrupted erasure has left, and the account that a person named."""
    from connectors.warehouse.maintenance.forget import find_account  # noqa: PLC0415 - imports pyarrow

    before = from_text((await warehouse.read_state(read_operations)).get(OPERATION))
    return before, await warehouse.read(find_account, text, before, await warehouse.read_state(read_forgotten))


async def find_now(settings: Settings, text: str) -> tuple[Account, int]:
    """Return the account that would be forgotten, and the number of its items. Raises as `forget_now` does."""
    from connectors.warehouse.maintenance.forget import count_items  # noqa: PLC0415 - imports pyarrow

    async with open_existing(settings, ACTIVITY) as (warehouse, _):
        _, account = await _find(warehouse, text)
        return account, await warehouse.read(count_items, account)


async def forget_now(settings: Settings, text: str) -> Receipt:
    """Erase the account with this id, name or public id everywhere, and what an interrupted erasure has left.

    After an error or a kill, the same call completes it. Raises SelectionError if there is no such account or more than
    one, WarehouseBusy, WarehouseUnusable and BucketError.
    """
    from connectors.warehouse.maintenance.forget import erase  # noqa: PLC0415 - imports pyarrow
    from flows.reporting.page import is_report  # noqa: PLC0415

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
        erasure = from_text((await warehouse.read_state(read_operations)).get(OPERATION))
        if any(account_id.lower() in one.words for one in erasure.accounts):
            raise SettingsError(
                "This account is not completely erased yet. Fix: run `gramhouse forget` again, then --undo."
            )
        return await warehouse.write_state(unmark_forgotten, account_id)

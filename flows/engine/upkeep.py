"""Commands on a warehouse without API requests: publish, repair, compact, rebuild, forget. Each opens it in one way."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from connectors.state.database import SqlConnection
from connectors.state.identity import (
    end_erasure,
    mark_forgotten,
    move_times,
    read_erasure,
    read_forgotten,
    read_identity,
    unmark_forgotten,
    write_erasure,
)
from connectors.state.inbox import delete_progress, forget_order, land, lift_cooldowns, reserve_seqs
from connectors.state.runs import begin_command, end_run, redact_texts
from connectors.warehouse.maintenance.clock import lift_waits, repair_clock, repair_raw
from connectors.warehouse.maintenance.compact_parts import compact_parts
from connectors.warehouse.maintenance.forget import count_items, erase, find_account
from connectors.warehouse.maintenance.rebuild import count_paths, order_of, rebuild
from connectors.warehouse.maintenance.retention import find_agreed_time
from connectors.warehouse.merge.columns import item_columns
from connectors.warehouse.merge.items import read_registry
from connectors.warehouse.storage.connection import explained
from flows.clock import SystemClock, new_id
from flows.config.errors import SettingsError
from flows.config.settings import Settings
from flows.engine.publishing import publish_snapshot
from flows.engine.resources import check_writable, steady_clock
from flows.engine.warehouse import Files, open_files, open_when_free
from flows.reporting.page import is_report
from flows.reporting.recording import STOPPED, record_failed_start, short
from models.checkpoint import ScopeCooldown
from models.clock import Ahead, Clock
from models.erasure import ACTIVITY, Account, Erasure
from models.files import WarehouseError, WarehouseUnusable, service_refusal
from models.runs import LONG_COOLDOWN, RunState
from models.selection import SelectionError

# What may have an erased account, and was not looked into.
_NOT_REACHED = (
    "backups, exports, copies and all other files, also those beside the warehouse and on other machines",
    "data of other accounts that mentions it, and names of fields that are called like it",
    "older versions of objects that the bucket keeps",
    "Prefect's database: parameters, logs and artifacts of runs",
    "log files, and the output of earlier commands",
)

Done = dict[str, Any]
"""What a command has done: its JSON object."""


@contextmanager
def open_existing(
    settings: Settings, activity: str, *, trusts_clock: bool = False, rewrites: bool = False
) -> Iterator[tuple[Files, Clock]]:
    """Open the warehouse, which must exist, for a command; yield the clock for what it stores, too.

    The command is recorded as running, and then how the block ended. Raises WarehouseUnusable also if the clock is
    behind, unless this `trusts_clock`, and otherwise as `open_when_free`.
    """
    clock, kind = SystemClock(), activity.split()[1]
    with ExitStack() as opened:
        with record_failed_start(kind, settings.warehouse):
            if not settings.warehouse.exists():
                fix = "Fix: `gramhouse sync` creates it."
                raise WarehouseUnusable(f"There is no warehouse at {settings.warehouse} yet. {fix}")
            check_writable(settings)
            files = asyncio.run(open_when_free(opened, settings, activity, clock, rewrites=rewrites))
        files.state.write(begin_command, kind, pid=os.getpid(), now=clock.now())
        state, detail = RunState.COMPLETE, None
        try:
            with explained(files.path):
                yield files, clock if trusts_clock else steady_clock(files, clock)
        except SelectionError:
            raise
        except Exception as error:
            state, detail = RunState.FAILED, short(error)
            raise
        except BaseException:
            state, detail = RunState.INTERRUPTED, STOPPED
            raise
        finally:
            # The first error is the one that matters.
            with suppress(WarehouseUnusable):
                files.state.write(end_run, None, state, now=clock.now(), detail=detail)


def publish_now(settings: Settings, *, may_show: bool = False) -> int:
    """Publish all landed pages; return the snapshot's size in bytes. With `may_show` it may show what the last one hid.

    Raises as `open_existing` and `publish_snapshot` do; so do all functions below that publish.
    """
    with open_existing(settings, "gramhouse publish") as (files, clock):
        return publish_snapshot(files, settings, now=clock.now(), may_show=may_show).snapshot_bytes


def repair_times(files: Files, *, now: datetime) -> Ahead | None:
    """Move times in the future to now, in the raw store, the warehouse and the state; return what they were.

    After a kill, the rest is moved by another repair.
    """
    repair_raw(files.raw, now=now)
    seq = 1 + files.state.write(reserve_seqs, 1)
    found = [files.query(repair_clock, seq=seq, now=now), files.state.write(move_times, now=now)]
    moved = [each for each in found if each is not None]
    return Ahead(sum(each.count for each in moved), max(each.last for each in moved)) if moved else None


def repair_now(settings: Settings, *, lift: bool) -> Ahead | None:
    """Move stored times in the future to now; with `lift`, also let cooldowns of more than `LONG_COOLDOWN` end.

    Publish if anything changed; return what the times were. This trusts the clock.
    """
    with open_existing(settings, "gramhouse doctor --repair", trusts_clock=True) as (files, clock):
        now = clock.now()
        moved = repair_times(files, now=now)
        if lift:
            files.state.write(lift_cooldowns, after=now + LONG_COOLDOWN)
            files.query(lift_waits, after=now + LONG_COOLDOWN, now=now)
        if moved is not None or lift:
            publish_snapshot(files, settings, now=now)
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


def compact_now(settings: Settings) -> Done:
    """Rewrite the warehouse file compactly and sorted, and combine small parts of the raw store.

    A kill at any time leaves both as they were, or partly tidied. Raises WarehouseUnusable also when the disk has no
    space for a second copy.
    """
    with open_existing(settings, "gramhouse compact", rewrites=True) as (files, clock):
        now, until, before = clock.now(), None, settings.warehouse.stat().st_size
        if settings.keep_raw is not None:
            until = files.query(find_agreed_time, now=now) - timedelta(days=settings.keep_raw)
        parts = compact_parts(files.db, files.raw, now=now, before=until)
    after = settings.warehouse.stat().st_size
    return {"warehouse": str(settings.warehouse), "bytes_before": before, "bytes_after": after, "raw": parts}


def count_paths_now(settings: Settings) -> Done:
    """Return how many items have a value at each path of the settings' mapping, and change nothing."""
    with open_existing(settings, "gramhouse rebuild --dry-run") as (files, _):
        return files.query(count_paths, files.raw, settings.media_mapping())


def rebuild_now(settings: Settings, *, force: bool) -> Done:
    """Read the raw store and the quarantine again with the settings' mapping, and publish.

    If it is stopped, nothing has changed, or the next command completes it.
    """
    with open_existing(settings, "gramhouse rebuild") as (files, clock):
        state, mapping = files.state, settings.media_mapping()
        if order_of(files.mapping) != order_of(mapping):
            # Before the rebuild, so that no kill leaves it out: without need, it only makes an open scan full.
            state.write(forget_order)
        done = files.query(rebuild, files.raw, mapping, land=lambda landings: state.write(land, landings), force=force)
        replace(files, mapping=mapping).merge(files.db)
        done["columns"] = len(item_columns(mapping, files.query(read_registry)))
        size = publish_snapshot(files, settings, now=clock.now()).snapshot_bytes
        return {**done, "snapshot": settings.snapshot, "snapshot_bytes": size}


def _find(files: Files, text: str) -> tuple[Erasure, Account]:
    """Return what an interrupted erasure has left, and the account that a person named."""
    before = files.state.read(read_erasure)
    return before, files.query(find_account, text, before, files.state.read(read_forgotten))


def find_now(settings: Settings, text: str) -> tuple[Account, int]:
    """Return the account that would be forgotten, and the number of its items. Raises as `forget_now` does."""
    with open_existing(settings, ACTIVITY) as (files, _):
        _, account = _find(files, text)
        return account, files.query(count_items, account)


def forget_now(settings: Settings, text: str) -> Done:
    """Erase the account with this id, name or public id everywhere, and what an interrupted erasure has left.

    After an error or a kill, the same call completes it. Raises SelectionError if there is no such account or more than
    one, WarehouseBusy, WarehouseUnusable and BucketError.
    """
    with open_existing(settings, ACTIVITY, rewrites=True) as (files, clock):
        state, now = files.state, clock.now()
        before, account = _find(files, text)
        accounts = {one.account_id: one for one in (*before.accounts, account)}
        erasure = state.write(_forget_in_state, Erasure(tuple(accounts.values()), before.removed), now=now)
        erasure = erase(
            files.db, files.raw, erasure,
            on_counted=lambda counted: state.write(write_erasure, counted, now=now),
        )  # fmt: skip
    # The file has been written again. The snapshot and the report still have what was erased, and so has the state's
    # file, and a draft that a killed or running download of the old snapshot writes.
    snapshot, report = settings.snapshot_file(), settings.report_file()
    snapshot.with_name(f".{snapshot.name}.download").unlink(missing_ok=True)
    had_report = is_report(report)
    with open_existing(settings, ACTIVITY) as (files, clock):
        published = publish_snapshot(files, settings, now=clock.now(), report=report if had_report else None)
        if is_removed := had_report and published.report is None:
            report.unlink()
        files.state.write(end_erasure)
        files.state.erase()
    written = [files.path, files.state.path, snapshot, published.report, settings.snapshot_url()]
    written += [files.raw] if "raw_versions" in erasure.removed else []
    return {
        "account_ids": erasure.ids,
        "removed": erasure.removed,
        "rewritten": [str(each) for each in written if each is not None],
        "removed_files": [str(report)] if is_removed else [],
        "not_reached": _NOT_REACHED,
    }


def _forget_in_state(state: SqlConnection, erasure: Erasure, *, now: datetime) -> Erasure:
    for account in erasure.accounts:
        mark_forgotten(state, account.account_id, new_id(), at=now)
    redact_texts(state, erasure.redact)
    erasure = erasure.with_removed(delete_progress(state, erasure.ids))
    write_erasure(state, erasure, now=now)
    return erasure


def undo_now(settings: Settings, account_id: str) -> bool:
    """Let syncs import a forgotten account again; return whether it was forgotten.

    Raises SettingsError if it is not completely erased yet, WarehouseBusy and WarehouseUnusable.
    """
    with open_existing(settings, ACTIVITY) as (files, _):
        erasure = files.state.read(read_erasure)
        if any(account_id.lower() in one.words for one in erasure.accounts):
            raise SettingsError(
                "This account is not completely erased yet. Fix: run `gramhouse forget` again, then --undo."
            )
        return files.state.write(unmark_forgotten, account_id)

"""`gramhouse publish`, `gramhouse rebuild` and `gramhouse compact`."""

from humanize import naturalsize

from flows.cli.options import AsJson, BusyWait, LogFormat, SnapshotFile, WarehouseFile
from flows.cli.output.terminal import WARN, clean, print_result
from flows.cli.signals import run_until_signalled
from flows.config.settings import load
from flows.reporting.words import count


def publish(
    *,
    warehouse: WarehouseFile = None,
    snapshot: SnapshotFile = None,
    busy_wait: BusyWait = None,
    as_json: AsJson = False,
    _: LogFormat = "text",
) -> None:
    """Merge landed pages and publish a snapshot, without requests."""
    from flows.engine.upkeep import publish_now

    settings = load(warehouse=warehouse, snapshot=snapshot, busy_wait=busy_wait)
    size = run_until_signalled(lambda _: publish_now(settings))
    document = {"snapshot": settings.snapshot, "snapshot_bytes": size}
    print_result(document, [f"Published {clean(settings.snapshot)} ({naturalsize(size)})."], as_json=as_json)


def compact(*, warehouse: WarehouseFile = None, as_json: AsJson = False, _: LogFormat = "text") -> None:
    """Rewrite the warehouse file, compacted and sorted.

    Small parts of the raw store are combined, without rows older than GRAMHOUSE_KEEP_RAW. The old parts are deleted a
    day after the next publish, because an older snapshot refers to them.

    It needs disk space for a second copy. If it fails, the old file is unchanged.

    Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 4 the warehouse is held by another process.
    """
    import time
    from dataclasses import asdict
    from datetime import timedelta

    from connectors.warehouse.maintenance.compact import compact as rewrite
    from flows.clock import SystemClock

    settings = load(warehouse=warehouse)
    sizes = rewrite(
        settings.warehouse,
        now=SystemClock().now(),
        pause=time.sleep,
        raw=settings.raw,
        keep_raw=None if settings.keep_raw is None else timedelta(days=settings.keep_raw),
        mapping=settings.media_mapping(),
    )
    before, after, raw = naturalsize(sizes.before), naturalsize(sizes.after), sizes.raw
    lines = [f"Compacted {clean(settings.warehouse)}: {before} before, {after} now."]
    if (raw.parts_before, raw.rows_deleted) != (raw.parts_after, 0):
        deleted = f", {count(raw.rows_deleted, 'row')} deleted" if raw.rows_deleted else ""
        now = f"{count(raw.parts_after, 'part')} now ({naturalsize(raw.bytes_after)})"
        lines.append(f"Raw store: {raw.parts_before:,} before, {now}{deleted}.")
    document = {"warehouse": str(settings.warehouse), "bytes_before": sizes.before, "bytes_after": sizes.after}
    print_result({**document, "raw": asdict(raw)}, lines, as_json=as_json)


def rebuild(
    *,
    warehouse: WarehouseFile = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
    _: LogFormat = "text",
) -> None:
    """Decode raw store and quarantine again with the current mapping.

    The raw store contains every item as received. Media items in quarantine become rows if they have an id now; an
    older version of an item never replaces a newer one.
    """
    settings = load(warehouse=warehouse, snapshot=snapshot)
    from flows.engine.upkeep import rebuild_now

    done = run_until_signalled(lambda _: rebuild_now(settings))
    stored, size = done.stored, done.snapshot_bytes
    items, columns = count(stored.items, "item"), count(stored.columns, "column")
    imported, outdated, left = (count(each, "record") for each in (done.imported, done.outdated, done.quarantined))
    lines = {
        f"Decoded {items} again into {columns}, and published {clean(settings.snapshot)} ({naturalsize(size)}).": True,
        f"Imported {imported} from quarantine.": done.imported,
        f"Deleted {outdated} from quarantine: newer versions of these items are stored.": done.outdated,
        f"{WARN} {left} in quarantine. List: `gramhouse quarantine`.": done.quarantined,
    }
    decoded = {"items": stored.items, "columns": stored.columns, "child_tables": stored.child_tables}
    records = {"imported": done.imported, "outdated": done.outdated, "quarantined": done.quarantined}
    document = {**decoded, **records, "snapshot": settings.snapshot, "snapshot_bytes": size}
    print_result(document, (line for line, shown in lines.items() if shown), as_json=as_json)

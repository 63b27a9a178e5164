"""`gramhouse compact` and `gramhouse rebuild`."""

from humanize import naturalsize

from flows.cli.options import AsJson, LogFormat, SnapshotFile, WarehouseFile
from flows.cli.output.terminal import WARN, clean, out, print_json, reporting
from flows.cli.signals import run_until_signalled
from flows.config.settings import load
from flows.reporting.words import count


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
    keep_raw = None if settings.keep_raw is None else timedelta(days=settings.keep_raw)
    sizes = rewrite(
        settings.warehouse,
        now=SystemClock().now(),
        pause=time.sleep,
        raw=settings.raw,
        keep_raw=keep_raw,
        mapping=settings.media_mapping(),
    )
    with reporting():
        if as_json:
            document = {"warehouse": str(settings.warehouse), "bytes_before": sizes.before, "bytes_after": sizes.after}
            print_json({**document, "raw": asdict(sizes.raw)})
        else:
            before, after = naturalsize(sizes.before), naturalsize(sizes.after)
            out.print(f"Compacted {clean(settings.warehouse)}: {before} before, {after} now.")
            raw = sizes.raw
            if (raw.parts_before, raw.rows_deleted) != (raw.parts_after, 0):
                deleted = f", {count(raw.rows_deleted, 'row')} deleted" if raw.rows_deleted else ""
                parts = count(raw.parts_after, "part")
                out.print(
                    f"Raw store: {raw.parts_before:,} before, {parts} now ({naturalsize(raw.bytes_after)}){deleted}."
                )


def rebuild(
    *,
    warehouse: WarehouseFile = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
    _: LogFormat = "text",
) -> None:
    """Decode the raw store and the quarantine again with the current mapping and publish, without API requests.

    The raw store contains every item as received. Media items in quarantine become rows if they have an id now; an
    older version of an item never replaces a newer one.
    """
    settings = load(warehouse=warehouse, snapshot=snapshot)
    from flows.engine.upkeep import rebuild_now

    done = run_until_signalled(lambda _: rebuild_now(settings))
    stored = done.stored
    with reporting():
        if as_json:
            decoded = {"items": stored.items, "columns": stored.columns, "child_tables": stored.child_tables}
            records = {"imported": done.imported, "outdated": done.outdated, "quarantined": done.quarantined}
            print_json({**decoded, **records, "snapshot": settings.snapshot, "snapshot_bytes": done.snapshot_bytes})
        else:
            what = f"Decoded {count(stored.items, 'item')} again into {count(stored.columns, 'column')}"
            out.print(f"{what}, and published {clean(settings.snapshot)} ({naturalsize(done.snapshot_bytes)}).")
            if done.imported:
                out.print(f"Imported {count(done.imported, 'record')} from quarantine.")
            if done.outdated:
                what = f"{count(done.outdated, 'record')} from quarantine: newer versions of these items are stored"
                out.print(f"Deleted {what}.")
            if done.quarantined:
                out.print(f"{WARN} {count(done.quarantined, 'record')} in quarantine. List: `gramhouse quarantine`.")

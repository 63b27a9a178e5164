"""`gramhouse compact` and `gramhouse rebuild`."""

import typer

from flows.cli.options import AsJson, LogFormat, SnapshotFile, WarehouseFile
from flows.cli.output.terminal import clean, out, print_json, reporting
from flows.cli.signals import run_until_signalled
from flows.config.settings import load
from flows.reporting.exit_code import ExitCode
from flows.reporting.words import count, file_size


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
    from flows.engine.clock import SystemClock

    settings = load(warehouse=warehouse)
    keep_raw = None if settings.keep_raw is None else timedelta(days=settings.keep_raw)
    sizes = rewrite(settings.warehouse, now=SystemClock().now(), pause=time.sleep, raw=settings.raw, keep_raw=keep_raw)
    with reporting():
        if as_json:
            document = {"warehouse": str(settings.warehouse), "bytes_before": sizes.before, "bytes_after": sizes.after}
            print_json({**document, "raw": asdict(sizes.raw)})
        else:
            before, after = file_size(sizes.before), file_size(sizes.after)
            out.print(f"Compacted {clean(settings.warehouse)}: {before} before, {after} now.")
            raw = sizes.raw
            if (raw.parts_before, raw.rows_deleted) != (raw.parts_after, 0):
                deleted = f", {count(raw.rows_deleted, 'row')} deleted" if raw.rows_deleted else ""
                parts = count(raw.parts_after, "part")
                out.print(
                    f"Raw store: {raw.parts_before:,} before, {parts} now ({file_size(raw.bytes_after)}){deleted}."
                )
    raise typer.Exit(ExitCode.COMPLETE)


def rebuild(
    *,
    warehouse: WarehouseFile = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
    _: LogFormat = "text",
) -> None:
    """Decode the raw store again with the current mapping and publish, without API requests.

    The raw store contains every item as received.
    """
    settings = load(warehouse=warehouse, snapshot=snapshot)
    from flows.engine.upkeep import rebuild_now

    reread, size = run_until_signalled(lambda _: rebuild_now(settings))
    with reporting():
        if as_json:
            counts = {"items": reread.items, "columns": reread.columns, "child_tables": reread.child_tables}
            print_json({**counts, "snapshot": settings.snapshot, "snapshot_bytes": size})
        else:
            what = f"Decoded {count(reread.items, 'item')} again into {count(reread.columns, 'column')}"
            out.print(f"{what}, and published {clean(settings.snapshot)} ({file_size(size)}).")
    raise typer.Exit(ExitCode.COMPLETE)

"""`gramhouse rebuild`: decode the raw store again, without API requests."""

import typer

from flows.cli.options import AsJson, LogFormat, SnapshotFile, WarehouseFile
from flows.cli.output.terminal import clean, out, print_json, reporting
from flows.cli.signalled import run_until_signalled
from flows.config.settings import load
from flows.reporting.exit_code import ExitCode
from flows.reporting.words import count, file_size


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

    reread, size = run_until_signalled(rebuild_now(settings))
    with reporting():
        if as_json:
            counts = {"items": reread.items, "columns": reread.columns, "child_tables": reread.child_tables}
            print_json({**counts, "snapshot": settings.snapshot, "snapshot_bytes": size})
        else:
            what = f"Decoded {count(reread.items, 'item')} again into {count(reread.columns, 'column')}"
            out.print(f"{what}, and published {clean(settings.snapshot)} ({file_size(size)}).")
    raise typer.Exit(ExitCode.COMPLETE)

"""`gramhouse rebuild`: everything stored decoded again, without asking the API."""

import typer

from flows.cli.options import AsJson, LogFormat, SnapshotFile, WarehouseFile
from flows.cli.output.terminal import clean, out, print_json, reporting
from flows.cli.signalled import run_until_signalled
from flows.config.settings import load
from flows.reporting.exit_code import ExitCode
from flows.reporting.words import count, megabytes


def rebuild(
    *,
    warehouse: WarehouseFile = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
    _: LogFormat = "text",
) -> None:
    """Read everything stored again by the present mapping, and publish it, without a request to the API.

    The raw store has every item as it came.
    """
    settings = load(warehouse=warehouse, snapshot=snapshot)
    from flows.engine.upkeep import rebuild_now

    reread, size = run_until_signalled(rebuild_now(settings))
    with reporting():
        if as_json:
            counts = {"items": reread.items, "columns": reread.columns, "child_tables": reread.child_tables}
            print_json({**counts, "snapshot": str(settings.snapshot), "snapshot_bytes": size})
        else:
            what = f"Read {count(reread.items, 'item')} anew into {count(reread.columns, 'column')}"
            out.print(f"{what}, and published {clean(settings.snapshot)} ({megabytes(size)}).")
    raise typer.Exit(ExitCode.COMPLETE)

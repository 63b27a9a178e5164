"""`gramhouse compact`: the warehouse file written anew, small and sorted."""

import typer

from flows.cli.options import AsJson, LogFormat, WarehouseFile
from flows.cli.terminal import clean, out, print_json, reporting
from flows.exit_code import ExitCode
from flows.settings import load
from flows.words import megabytes


def compact(*, warehouse: WarehouseFile = None, as_json: AsJson = False, _: LogFormat = "text") -> None:
    """Rewrite the warehouse file, compact and sorted, in place of the old one.

    It needs disk room for a second copy while it works. Whatever fails, the old file stays as it was.

    Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 4 the warehouse is held by another process.
    """
    import time

    from connectors.warehouse.compact import compact as rewrite
    from flows.clock import SystemClock

    settings = load(warehouse=warehouse)
    since = SystemClock().now().isoformat(timespec="seconds")
    sizes = rewrite(settings.warehouse, since=since, pause=time.sleep)
    with reporting():
        if as_json:
            document = {"warehouse": str(settings.warehouse), "bytes_before": sizes.before, "bytes_after": sizes.after}
            print_json(document)
        else:
            before, after = megabytes(sizes.before), megabytes(sizes.after)
            out.print(f"Compacted {clean(settings.warehouse)}: {before} before, {after} now.")
    raise typer.Exit(ExitCode.COMPLETE)

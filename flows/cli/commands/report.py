"""`gramhouse report`: one self-contained HTML page made from the snapshot."""

import webbrowser
from typing import Annotated

import typer
from humanize import naturalsize

from flows.cli.options import AsJson, SnapshotFile, SurfaceNames, to_path
from flows.cli.output.terminal import DONE, WARN, clean, err, out, print_json
from flows.cli.snapshot_download import current_snapshot
from flows.config.options import SyncOptions, in_order, parse_options
from flows.config.settings import load
from flows.reporting.reader import WEEKS
from flows.reporting.words import count, moment

_MOST_WEEKS = 57


def report(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="Output file (GRAMHOUSE_REPORT). Default: report.html in the snapshot's folder.",
        ),
    ] = None,
    *,
    account: Annotated[
        list[str] | None,
        typer.Option("--account", help="Only this account (name or id); may be repeated."),
    ] = None,
    surface: SurfaceNames = None,
    weeks: Annotated[int, typer.Option(help="Number of weeks in daily charts.", min=1, max=_MOST_WEEKS)] = WEEKS,
    show: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a self-contained HTML report with charts and tables.

    The page makes no requests and runs no scripts, so it can be sent by mail and archived. Creating it does not block
    a sync.

    Exit codes: 0 written, 1 the snapshot cannot be read or the page cannot be written, 2 wrong usage.
    """
    settings = load(snapshot=snapshot)
    from flows.reporting.page.write import write

    path = settings.report_file() if file is None else to_path("FILE", file)
    written = write(
        current_snapshot(settings),
        path,
        account or (),
        surfaces=in_order(parse_options(SyncOptions, {"surfaces": surface or []}).surfaces),
        weeks=weeks,
        apart_from=settings.warehouse,
    )
    size = len(written.html.encode())
    if as_json:
        contents = {"published_at": written.published_at, "action_required": written.attention}
        print_json({"report": str(path), "report_bytes": size, **contents, "exit_code": 0})
    else:
        needs = f"; action required: {count(written.attention, 'item')}" if written.attention else ""
        made = f"the snapshot of {moment(written.published_at)} UTC{needs}"
        out.print(f"{DONE} {clean(path)} ({naturalsize(size)}): {made}", soft_wrap=True)
    if show and not webbrowser.open(path.resolve().as_uri()):
        err.print(f"{WARN} Could not start a browser. Fix: open {clean(path.resolve())} manually.", soft_wrap=True)

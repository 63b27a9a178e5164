"""`gramhouse report`: one self-contained HTML page made from the snapshot."""

from pathlib import Path
from typing import Annotated

import typer

from connectors.warehouse.storage.paths import local
from flows.cli.options import AsJson, SnapshotFile, SurfaceNames
from flows.cli.output.terminal import DONE, WARN, clean, err, moment, out, print_json
from flows.cli.surfaces import to_surfaces
from flows.config.errors import SettingsError
from flows.config.settings import load
from flows.reporting.page.reader import SURFACES, WEEKS, Audience, Scope
from flows.reporting.page.write import default_path, write
from flows.reporting.words import count, megabytes

_MOST_WEEKS = 57


def report(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="The page (GRAMHOUSE_REPORT); without both, report.html beside the snapshot.",
            show_default=False,
        ),
    ] = None,
    *,
    account: Annotated[
        list[str] | None,
        typer.Option("--account", help="Only this account, by name or id; may be repeated.", show_default=False),
    ] = None,
    surface: SurfaceNames = None,
    weeks: Annotated[int, typer.Option(help="How far back charts by day go.", min=1, max=_MOST_WEEKS)] = WEEKS,
    audience: Annotated[Audience, typer.Option("--for", help="Which part of the page to make.")] = "both",
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> None:
    """Make one self-contained HTML page of charts and tables from the snapshot, for operators and analysts.

    The page makes no request and runs no script: it can be sent by mail and opened years later. It is made at any
    hour, as queries are.

    Exit codes: 0 made, 1 there is no snapshot that can be read or the page cannot be written, 2 wrong usage.
    """
    chosen = to_surfaces(surface)
    settings = load(snapshot=snapshot)
    path = settings.report or default_path(settings.snapshot)
    if file is not None:
        try:
            path = local(Path(file))
        except ValueError as error:
            message = f"FILE: {error} (got {file!r})."
            raise SettingsError(message) from None
    surfaces = tuple(each for each in SURFACES if not chosen or each in chosen)
    scope = Scope(accounts=tuple(account or ()), surfaces=surfaces, weeks=weeks, audience=audience)
    written = write(settings.snapshot, path, scope, apart_from=settings.warehouse)
    if as_json:
        print_json(
            {
                "report": str(path),
                "report_bytes": written.bytes,
                "published_at": written.published_at,
                "needs_a_person": written.attention,
                "exit_code": 0,
            }
        )
    else:
        needs = f"; {count(written.attention, 'thing')} on it need a person" if written.attention else ""
        made = f"the snapshot of {moment(written.published_at)} UTC{needs}"
        out.print(f"{DONE} {clean(path)} ({megabytes(written.bytes)}): {made}", soft_wrap=True)
    if show:
        _open(path)


def _open(path: Path) -> None:
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        err.print(f"{WARN} No browser could be started. Fix: open {clean(path.resolve())} yourself.", soft_wrap=True)

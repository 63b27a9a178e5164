"""`gramhouse rebuild`: the warehouse made anew, without asking the API."""

from typing import Annotated

import typer

from flows.cli.options import AsJson, LogFormat, SnapshotFile, WarehouseFile
from flows.cli.signalled import run_until_signalled
from flows.cli.terminal import clean, out, print_json, reporting
from flows.errors import SettingsError
from flows.exit_code import ExitCode
from flows.settings import load
from flows.words import count, megabytes


def rebuild(
    *,
    from_archive: Annotated[
        bool, typer.Option("--from-archive", help="From every page that syncs have kept in the archive.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Even if the archive does not hold all: what it lacks is lost.")
    ] = False,
    archive: Annotated[
        str | None,
        typer.Option("--archive", metavar="PATH", help="The archive's folder (GRAMHOUSE_ARCHIVE).", show_default=False),
    ] = None,
    warehouse: WarehouseFile = None,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
    _: LogFormat = "text",
) -> None:
    """Read everything stored again by the present mapping, and publish it, without a request to the API.

    With --from-archive the warehouse is made of its first page on; until it is whole the old one stays in its place.
    """
    settings = load(archive=archive, warehouse=warehouse, snapshot=snapshot)
    if force and not from_archive:
        message = "--force says what an archive may lack; it goes with --from-archive."
        raise SettingsError(message)
    from flows.upkeep import publish_now, rebuild_archived, rebuild_now

    told: dict[str, object]
    if from_archive:
        rebuilt = rebuild_archived(settings, force=force)
        told = {"folds": rebuilt.folds, "landings": rebuilt.landings}
        size = run_until_signalled(publish_now(settings))
        what = f"Replayed {rebuilt.landings:,} landings in {rebuilt.folds:,} folds"
    else:
        reread, size = run_until_signalled(rebuild_now(settings))
        told = {"items": reread.items, "columns": reread.columns, "child_tables": reread.child_tables}
        what = f"Read {count(reread.items, 'item')} anew into {count(reread.columns, 'column')}"
    with reporting():
        if as_json:
            print_json({**told, "snapshot": str(settings.snapshot), "snapshot_bytes": size})
        else:
            out.print(f"{what}, and published {clean(settings.snapshot)} ({megabytes(size)}).")
    raise typer.Exit(ExitCode.COMPLETE)

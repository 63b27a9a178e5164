"""`gramhouse sync`: one run over everything that the API key can see."""

from typing import Annotated

import typer

from flows.cli.options import RunArguments, SurfaceNames, option, with_run_arguments
from flows.config.errors import SettingsError
from flows.config.options import SyncOptions, parse_options


@with_run_arguments
def sync(
    *,
    surface: SurfaceNames = None,
    incremental: Annotated[
        bool, typer.Option("--incremental", help="Fetch only new and recent posts (GRAMHOUSE_SYNC_MODE).")
    ] = False,
    full_refresh: Annotated[
        bool, typer.Option("--full-refresh", help="Fetch all posts of every account (GRAMHOUSE_SYNC_MODE).")
    ] = False,
    max_requests: Annotated[int | None, option(SyncOptions, "max_requests")] = None,
    accept_removals: Annotated[bool, option(SyncOptions, "accept_removals")] = False,
    rebind: Annotated[bool, option(SyncOptions, "rebind")] = False,
    run: RunArguments,
) -> None:
    """Sync all that the API key can see, and publish a snapshot.

    An interrupted run is resumed: saved pages are not fetched again.

    Exit codes: 0 complete, 1 failed, 2 wrong usage or configuration, 3 partial, 4 the warehouse is held by
    another process.
    """
    if incremental and full_refresh:
        message = "--incremental and --full-refresh cannot be combined. Fix: use one of them."
        raise SettingsError(message)
    mode = "incremental" if incremental else "full_refresh" if full_refresh else None
    settings = run.settings("sync")
    from flows.cli.running import run_command

    of_sync = {"accept_removals": accept_removals, "rebind": rebind, "mode": mode, "max_requests": max_requests}
    options = parse_options(SyncOptions, {**run.chosen, **of_sync, "surfaces": surface or []})
    run_command(options, settings, run, what="sync")

"""`gramhouse sync` and `gramhouse backfill`: one run over everything that the API key can see, or selected accounts."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from flows.cli.options import RunArguments, SurfaceNames, option, since_time, with_run_arguments
from flows.cli.output.table import print_rows
from flows.cli.output.terminal import clean, out, print_json
from flows.clock import SystemClock
from flows.config.errors import SettingsError
from flows.config.options import BackfillOptions, SyncOptions, parse_options
from flows.reporting.exit_code import ExitCode
from models.selection import NothingChosen

Record = dict[str, Any]

_SHOWN = 20


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
    mode = "incremental" if incremental else "full_refresh" if full_refresh else None
    of_sync = {"accept_removals": accept_removals, "rebind": rebind, "mode": mode, "max_requests": max_requests}
    with run.recorded("sync"):
        if incremental and full_refresh:
            raise SettingsError("--incremental and --full-refresh cannot be combined. Fix: use one of them.")
        settings = run.settings()
        options = parse_options(SyncOptions, {**run.chosen, **of_sync, "surfaces": surface or []})
    from flows.cli.running import run_command

    run_command(options, settings, run, what="sync")


def _show(found: Sequence[Record], *, as_json: bool) -> None:
    from flows.reporting.dry_run import describe_forecast, requests

    if as_json:
        scanned, skipped = ([row for row in found if bool(row["reason"]) is given] for given in (False, True))
        print_json({"accounts": scanned, "requests": requests(found), "skipped": skipped})
        return
    if found:
        columns = {"account": "ig_username", "surfaces": "surfaces", "requests": "requests", "skipped": "reason"}
        shown = [
            row | {"surfaces": " and ".join(row["surfaces"]), "requests": None if row["reason"] else row["pages"]}
            for row in found[:_SHOWN]
        ]
        columns |= {"cooldown until": "resume_after", "account id": "account_id"}
        print_rows(shown, columns, prose=("account", "surfaces"))
    if len(found) > _SHOWN:
        out.print(f"[dim]and {len(found) - _SHOWN:,} more[/]")
    out.print(describe_forecast(found))


@with_run_arguments
def backfill(
    *,
    account: Annotated[list[str] | None, option(BackfillOptions, "accounts", "--account", "ACCOUNT")] = None,
    surface: SurfaceNames = None,
    everything: Annotated[bool, option(BackfillOptions, "everything", "--all")] = False,
    expired_since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Accounts whose token was expired at any time since then: 2d, 36h, or a date (UTC)."
        ),
    ] = None,
    failed: Annotated[bool, option(BackfillOptions, "failed")] = False,
    reason: Annotated[str | None, option(BackfillOptions, "reason")] = None,
    dry_run: Annotated[bool, option(BackfillOptions, "dry_run")] = False,
    run: RunArguments,
) -> None:
    """Scan selected accounts again from the first page.

    History and first_seen_at are kept. An interrupted sync keeps its progress. Exit codes are those of
    `gramhouse sync`; 0 even when no account matches, and 3 when the tokens of all accounts that match have expired.
    """
    now = SystemClock().now()
    with run.recorded("backfill"):
        settings = run.settings()
        options = parse_options(
            BackfillOptions,
            {
                **run.chosen,
                "accounts": account or [],
                "surfaces": surface or [],
                "everything": everything,
                "expired_since": None if expired_since is None else since_time("--expired-since", expired_since, now),
                "failed": failed,
                "reason": reason,
            },
        )
    from flows.cli.running import run_command
    from flows.reporting.dry_run import forecast

    selection = options.selection()
    if dry_run:
        _show(forecast(settings, selection, now=now), as_json=run.as_json)
        return
    try:
        run_command(options, settings, run, what="backfill")
    except NothingChosen as nothing:
        if run.as_json:
            print_json({"state": "nothing_to_do", "exit_code": ExitCode.COMPLETE, "detail": str(nothing)})
        else:
            out.print(clean(nothing))

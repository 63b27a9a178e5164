"""`gramhouse sync` and `gramhouse backfill`: one run over everything that the API key can see, or selected accounts."""

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from flows.cli.options import RunArguments, since_time
from flows.cli.output.table import print_rows
from flows.cli.output.terminal import clean, out, print_json
from flows.clock import SystemClock
from flows.config.errors import SettingsError
from flows.config.options import BackfillOptions, SyncOptions
from flows.config.settings import load
from flows.reporting.exit_code import ExitCode
from models.selection import NothingChosen

Record = dict[str, Any]

_SHOWN = 20


def sync(
    *,
    options: SyncOptions = SyncOptions(),
    incremental: Annotated[bool, Parameter(help="Fetch only new and recent posts (GRAMHOUSE_SYNC_MODE).")] = False,
    full_refresh: Annotated[bool, Parameter(help="Fetch all posts of every account (GRAMHOUSE_SYNC_MODE).")] = False,
    run: RunArguments = RunArguments(),
) -> None:
    """Sync all that the API key can see, and publish a snapshot.

    An interrupted run is resumed: saved pages are not fetched again.

    Exit codes: 0 complete, 1 failed, 2 wrong usage or configuration, 3 partial, 4 the warehouse is held by
    another process.
    """
    if incremental and full_refresh:
        raise SettingsError("--incremental and --full-refresh cannot be combined. Fix: use one of them.")
    mode = "incremental" if incremental else "full_refresh" if full_refresh else None
    settings = load(**options.expert.model_dump(), **run.addresses)
    from flows.cli.running import run_command

    run_command(options.model_copy(update={"mode": mode}), settings, run, what="sync")


def _print_forecast(found: Sequence[Record], *, as_json: bool) -> None:
    from flows.reporting.dry_run import describe_forecast, requests

    if as_json:
        scanned, skipped = ([row for row in found if bool(row["reason"]) is given] for given in (False, True))
        print_json({"accounts": scanned, "requests": requests(found), "skipped": skipped})
        return
    shown = [
        row | {"surfaces": ", ".join(row["surfaces"]), "requests": None if row["reason"] else row["pages"]}
        for row in found[:_SHOWN]
    ]
    columns = {"account": "ig_username", "surfaces": "surfaces", "requests": "requests", "skipped": "reason"}
    if shown:
        print_rows(shown, {**columns, "cooldown until": "resume_after", "account id": "account_id"}, prose=["account"])
    if len(found) > _SHOWN:
        out.print(f"[dim]and {len(found) - _SHOWN:,} more[/]")
    out.print(describe_forecast(found))


def backfill(
    *,
    options: BackfillOptions = BackfillOptions(),
    expired_since: Annotated[
        str | None,
        Parameter(
            metavar="TIME", help="Accounts whose token was expired at any time since then: 2d, 36h, or a date (UTC)."
        ),
    ] = None,
    run: RunArguments = RunArguments(),
) -> None:
    """Scan selected accounts again from the first page.

    History and first_seen_at are kept. An interrupted sync keeps its progress. Exit codes are those of
    `gramhouse sync`; 0 even when no account matches, and 3 when the tokens of all accounts that match have expired.
    """
    now = SystemClock().now()
    if expired_since is not None:
        since = since_time("--expired-since", expired_since, now)
        options = options.model_copy(update={"expired_since": since})
    settings = load(**options.expert.model_dump(), **run.addresses)
    selection = options.selection()
    if options.dry_run:
        from flows.reporting.dry_run import forecast

        _print_forecast(forecast(settings, selection, now=now), as_json=run.as_json)
        return
    from flows.cli.running import run_command

    try:
        run_command(options, settings, run, what="backfill")
    except NothingChosen as nothing:
        if run.as_json:
            print_json({"state": "nothing_to_do", "exit_code": ExitCode.COMPLETE, "detail": str(nothing)})
        else:
            out.print(clean(nothing))

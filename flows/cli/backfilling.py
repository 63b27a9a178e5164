"""`gramhouse backfill`: chosen accounts walked again from the first page."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.importing import importing
from flows.cli.listing import plain_table
from flows.cli.options import (
    AsJson,
    BaseUrl,
    BusyWait,
    Concurrency,
    MaxWait,
    PageSize,
    Retries,
    SnapshotFile,
    SurfaceNames,
    Verbose,
    WarehouseFile,
)
from flows.cli.surfaces import to_surfaces
from flows.cli.terminal import clean, out, print_json
from flows.exit_code import ExitCode
from flows.settings import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from models.selection import ChosenAccount

_SHOWN = 20


def _show(accounts: "Sequence[ChosenAccount]", *, as_json: bool) -> None:
    from flows.choosing import foretold

    if as_json:
        requests = sum(account.pages for account in accounts)
        print_json({"accounts": [asdict(account) for account in accounts], "requests": requests})
        return
    if accounts:
        table = plain_table({"account": "", "surfaces": "", "requests": "right", "": "", "account id": ""})
        for account in accounts[:_SHOWN]:
            table.add_row(
                clean(account.ig_username),
                " and ".join(account.surfaces),
                f"{account.pages:,}",
                "token expired: skipped" if account.expired and not account.pages else "",
                clean(account.account_id),
            )
        out.print(table)
        if len(accounts) > _SHOWN:
            out.print(f"[dim]and {len(accounts) - _SHOWN:,} more[/]")
    out.print(foretold(accounts))


def backfill(
    *,
    account: Annotated[
        list[str] | None,
        typer.Option("--account", help="An account's id or name; may be repeated.", show_default=False),
    ] = None,
    surface: SurfaceNames = None,
    everything: Annotated[bool, typer.Option("--all", help="Every account that is listed.")] = False,
    expired_since: Annotated[
        datetime | None,
        typer.Option(
            "--expired-since",
            help="Accounts whose token was expired at any time since then (UTC).",
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"],
            show_default=False,
        ),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="The walks that were left undone when last tried.")] = False,
    reason: Annotated[str | None, typer.Option(help="Why; it is kept with the run.", show_default=False)] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be walked, and about how many requests.")
    ] = False,
    base_url: BaseUrl = None,
    warehouse: WarehouseFile = None,
    snapshot: SnapshotFile = None,
    concurrency: Concurrency = None,
    page_size: PageSize = None,
    max_wait: MaxWait = None,
    busy_wait: BusyWait = None,
    retries: Retries = 0,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Walk chosen accounts again from the first page, and publish a snapshot.

    History and first_seen_at are kept, and a sync that was cut short goes on from where it was. Exit codes as
    those of `gramhouse sync`; 0 also when there is nothing to walk.
    """
    chosen = {
        "warehouse": warehouse,
        "snapshot": snapshot,
        "concurrency": concurrency,
        "page_size": page_size,
        "max_wait": max_wait,
        "busy_wait": busy_wait,
    }
    surfaces = to_surfaces(surface)
    settings = load(**chosen, base_url=base_url)
    with importing():
        from flows.choosing import chosen_now
        from flows.cli.running import carry_out, speak_up
        from flows.means import order
        from flows.options import BackfillOptions, asked
        from flows.pipeline import NothingChosen

    options = asked(
        BackfillOptions,
        {
            **chosen,
            "accounts": account or [],
            "surfaces": surfaces,
            "everything": everything,
            "expired_since": None if expired_since is None else expired_since.replace(tzinfo=UTC),
            "failed": failed,
            "reason": reason,
        },
    )
    selection = options.selection()
    if dry_run:
        _show(chosen_now(settings, selection), as_json=as_json)
        raise typer.Exit(ExitCode.COMPLETE)
    if verbose:
        speak_up()
    try:
        carry_out(
            options,
            settings,
            order(settings, selection=selection, reason=reason),
            what="backfill",
            base_url=base_url,
            retries=retries,
            as_json=as_json,
        )
    except NothingChosen as nothing:
        if as_json:
            print_json({"state": "nothing_to_do", "exit_code": ExitCode.COMPLETE, "detail": str(nothing)})
        else:
            out.print(clean(nothing))
        raise typer.Exit(ExitCode.COMPLETE) from None

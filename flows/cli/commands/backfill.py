"""`gramhouse backfill`: scans selected accounts again from the first page."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import RunArguments, SurfaceNames, option, with_run_arguments
from flows.cli.output.plain_table import print_rows
from flows.cli.output.terminal import clean, out, print_json
from flows.config.options import BackfillOptions, parse_options
from flows.reporting.exit_code import ExitCode
from flows.reporting.words import moment
from models.selection import NothingChosen

if TYPE_CHECKING:
    from flows.reporting.dry_run import Forecast

_SHOWN = 20


def _show(found: "Forecast", *, as_json: bool) -> None:
    from flows.reporting.dry_run import described

    accounts = [asdict(account) for account in found.scanned]
    expired = [asdict(account) | {"reason": "token_expired", "resume_after": None} for account in found.expired]
    cooling = [asdict(account) | {"reason": "cooldown", "resume_after": until} for account, until in found.cooling]
    if as_json:
        counts = {"requests": found.requests, "skipped": expired + cooling, "cooldowns_as_of": found.cooldowns.as_of}
        print_json({"accounts": accounts, **counts})
        return
    rows = [row | {"requests": row["pages"], "why": None} for row in accounts]
    rows += [row | {"requests": None, "why": "token expired: skipped"} for row in expired]
    for row in cooling:
        rows.append(row | {"requests": None, "why": f"cooldown until {moment(row['resume_after'])} UTC: deferred"})
    if rows:
        shown = [row | {"surfaces": " and ".join(row["surfaces"])} for row in rows[:_SHOWN]]
        columns = {name: name for name in ("surfaces", "requests", "why")}
        print_rows(shown, {"account": "ig_username", **columns, "account id": "account_id"})
    if len(rows) > _SHOWN:
        out.print(f"[dim]and {len(rows) - _SHOWN:,} more[/]")
    out.print(described(found))


@with_run_arguments
def backfill(
    *,
    account: Annotated[list[str] | None, option(BackfillOptions, "accounts", "--account", "ACCOUNT")] = None,
    surface: SurfaceNames = None,
    everything: Annotated[bool, option(BackfillOptions, "everything", "--all")] = False,
    expired_since: Annotated[
        datetime | None,
        typer.Option(
            "--expired-since",
            metavar="DATE",
            help=BackfillOptions.model_fields["expired_since"].description,
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"],
        ),
    ] = None,
    failed: Annotated[bool, option(BackfillOptions, "failed")] = False,
    reason: Annotated[str | None, option(BackfillOptions, "reason")] = None,
    dry_run: Annotated[bool, option(BackfillOptions, "dry_run")] = False,
    run: RunArguments,
) -> None:
    """Scan selected accounts again from the first page and publish a snapshot.

    History and first_seen_at are kept. An interrupted sync keeps its progress. Exit codes are those of
    `gramhouse sync`; 0 also when no account matches, and 3 when the tokens of all accounts that match have expired.
    """
    settings = run.settings("backfill")
    from flows.cli.running import run_command
    from flows.reporting.dry_run import forecast

    options = parse_options(
        BackfillOptions,
        {
            **run.chosen,
            "accounts": account or [],
            "surfaces": surface or [],
            "everything": everything,
            "expired_since": expired_since,
            "failed": failed,
            "reason": reason,
        },
    )
    selection = options.selection()
    if dry_run:
        _show(forecast(settings, selection, now=datetime.now(UTC)), as_json=run.as_json)
        return
    try:
        run_command(options, settings, run, what="backfill")
    except NothingChosen as nothing:
        if run.as_json:
            print_json({"state": "nothing_to_do", "exit_code": ExitCode.COMPLETE, "detail": str(nothing)})
        else:
            out.print(clean(nothing))

"""`gramhouse sync` and `gramhouse backfill`: one run over everything that the API key can see, or selected accounts."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import RenderableType

from flows.cli.options import RunArguments, since_time
from flows.cli.output.table import listing
from flows.cli.output.terminal import Answer, clean
from flows.clock import SystemClock
from flows.config.errors import SettingsError
from flows.config.options import BackfillOptions, SyncOptions
from flows.config.settings import Settings, load
from flows.engine.run_request import RunRequest
from flows.reporting.exit_code import ExitCode
from models.selection import NothingChosen

if TYPE_CHECKING:
    from flows.engine.plan import Plan

# The most scans that are listed one by one.
_SHOWN = 20


def sync(
    *,
    options: SyncOptions = SyncOptions(),
    incremental: Annotated[bool, Parameter(help="Fetch only new and recent posts (GRAMHOUSE_SYNC_MODE).")] = False,
    full_refresh: Annotated[bool, Parameter(help="Fetch all posts of every account (GRAMHOUSE_SYNC_MODE).")] = False,
    plan: Annotated[bool, Parameter(help="Show what would be requested now and why, without a request.")] = False,
    run: RunArguments = RunArguments(),
) -> Answer:
    """Sync all that the API key can see, and publish a snapshot.

    An interrupted run is resumed: saved pages are not fetched again.

    Exit codes: 0 complete, 1 failed, 2 wrong usage or configuration, 3 partial, 4 the warehouse is held by
    another process.
    """
    if incremental and full_refresh:
        raise SettingsError("--incremental and --full-refresh cannot be combined. Fix: use one of them.")
    mode = "incremental" if incremental else "full_refresh" if full_refresh else None
    options = options.model_copy(update={"mode": mode})
    settings = load(**options.expert.model_dump(), **run.addresses)
    if plan:
        return _plan(RunRequest(settings, options))
    return _run(options, settings, run, what="sync")


def _plan(request: RunRequest) -> Answer:
    from flows.engine.plan import make_plan

    made = make_plan(request, now=SystemClock().now())
    return Answer(made.document(), _describe_plan(made))


def _describe_plan(plan: "Plan") -> Iterator[RenderableType]:
    """Yield what a run would do: its scans by reason, and of few accounts each scan."""
    from flows.engine.plan import describe_plan

    columns = {"feed": "surface", "scan": "scan", "why": "reason"}
    if plan.scans:
        yield from listing([*plan.groups(), *plan.of_catalogue()], columns | {"scans": "scans", "requests": "requests"})
    if 0 < len(plan.scans) <= _SHOWN:
        columns = {"account": "ig_username", **columns, "requests": "requests"}
        columns |= {"due": "due_at", "because": "due_reason"} if plan.is_due else {}
        columns |= {"cooldown until": "resume_after", "account id": "account_id"}
        yield ""
        yield from listing([asdict(scan) for scan in plan.scans], columns, prose=["account"])
    yield describe_plan(plan)


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
) -> Answer:
    """Scan selected accounts again from the first page.

    History and first_seen_at are kept. An interrupted sync keeps its progress. Exit codes are those of
    `gramhouse sync`; 0 even when no account matches, and 3 when the tokens of all accounts that match have expired.
    """
    if expired_since is not None:
        since = since_time("--expired-since", expired_since, SystemClock().now())
        options = options.model_copy(update={"expired_since": since})
    settings = load(**options.expert.model_dump(), **run.addresses)
    # Raises SelectionError if it selects nothing.
    options.selection()
    request = RunRequest(settings, options)
    if options.dry_run:
        return _plan(request)
    return _run(options, settings, run, what="backfill")


def _run(options: SyncOptions | BackfillOptions, settings: Settings, run: RunArguments, *, what: str) -> Answer:
    from flows.cli.running import run_command

    try:
        return run_command(options, settings, run, what=what)
    except NothingChosen as nothing:
        document = {"state": "nothing_to_do", "exit_code": ExitCode.COMPLETE, "detail": str(nothing)}
        return Answer(document, [clean(nothing)])

"""`gramhouse demo` and `gramhouse sandbox`: everything on this machine, with an API that generates its data."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from connectors.sandbox.http.requests import DEMO_KEY
from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.storage.files import database, replace_file
from connectors.warehouse.storage.sql import statements
from flows.cli.commands.sync import describe_report
from flows.cli.options import number, to_path
from flows.cli.signals import run_until_signalled
from flows.cli.table import print_stream
from flows.cli.terminal import clean, err, show
from flows.clock import ContinuedClock, SystemClock
from flows.config.errors import SettingsError
from flows.config.settings import load
from flows.reporting.run_report import RunReport
from flows.reporting.words import count
from models.runs import RunState

if TYPE_CHECKING:
    from connectors.sandbox.http.app import Sandbox

_SQL = statements(__name__)

# When a simulated day begins (UTC), and how much later it is synced.
_BEGINS, _SYNCED = timedelta(hours=2), timedelta(minutes=15)

# Few and small, so that many days take seconds.
_ACCOUNTS, _POSTS = 12, 30


def _begin(now: datetime) -> datetime:
    """Return when the simulated day of a time began."""
    return (now - _BEGINS).replace(hour=0, minute=0, second=0, microsecond=0) + _BEGINS


def first_day(folder: Path, *, days: int, now: datetime) -> datetime:
    """Return the time (UTC) at which the demo's first simulated day began, which is kept in its folder.

    Raises SettingsError if the folder has another warehouse.
    """
    file = folder / "first_day"
    if file.exists():
        return datetime.fromisoformat(file.read_text(encoding="utf-8"))
    if (folder / "warehouse.duckdb").exists():
        raise SettingsError(f"{folder} has another warehouse. Fix: choose another --folder.")
    folder.mkdir(parents=True, exist_ok=True)
    begins = _begin(now - _SYNCED) - timedelta(days=days - 1)
    replace_file(file, begins.isoformat().encode())
    return begins


async def _sync_days(sandbox: "Sandbox", api: str, folder: Path, begins: datetime, days: Sequence[int]) -> RunReport:
    """Sync at 02:15 of each of these days, by a clock of that day, and the last one now; return its report."""
    from flows.config.options import SyncOptions
    from flows.config.run_request import RunRequest
    from flows.engine.resources import open_resources
    from flows.pipeline import run_sync

    files = {"warehouse": folder / "warehouse.duckdb", "snapshot": str(folder / "analytics.duckdb")}
    settings = load(base_url=api, api_key=DEMO_KEY, report=folder / "report.html", **files)
    request = RunRequest(settings, SyncOptions(rebind=True))
    past = replace(request, settings=settings.model_copy(update={"report": None}))
    # Opened once, because opening takes as long as syncing so few accounts.
    async with open_resources(settings, "gramhouse demo") as resources:
        for day in days[:-1]:
            sandbox.day = day
            at = begins + timedelta(days=day) + _SYNCED
            with err.status(f"[dim]syncing {at:%Y-%m-%d} …[/]"):
                await run_sync(past, replace(resources, clock=ContinuedClock(resources.clock, at)))
        sandbox.day = days[-1]
        return await run_sync(request, resources)


def _show_next(snapshot: Path) -> None:
    """Show the answer to a question, and commands that do not need changes of the shell."""
    show("\n[bold]Which posts have the most likes?[/]", clean(_SQL["question"], newlines=True))
    with open_snapshot(snapshot) as opened:
        print_stream(opened.user_query(_SQL["question"]), "table")
    program = clean(sys.argv[0]) if sys.argv[0].endswith("gramhouse") else "python -m flows.cli"
    here, folder = f"--snapshot {clean(snapshot)}", clean(snapshot.parent)
    show(
        f"\n[bold]Next steps[/]\n  Open [bold]{folder}/report.html[/] in a browser: charts and tables."
        f"\n  [cyan]{program} query {here} 'FROM runs'[/]\n  [cyan]{program} changes {here}[/]"
        f"\n  [cyan]{program} demo --folder {folder}[/]  [dim]# tomorrow: syncs the days that have begun since[/]"
        f"\n[dim]All files are in {folder}; delete it to start over. To use a real API, see README.md.[/]",
        soft_wrap=True,
    )


def _serve(sandbox: "Sandbox", port: int = 0) -> None:
    """Serve a sandbox until Ctrl-C. Raises SettingsError if the port cannot be used."""
    from connectors.sandbox.http.serve import listening, serve

    with ExitStack() as stack:
        try:
            listener, url = stack.enter_context(listening(port))
        except OSError as error:
            why = error.strerror or error
            raise SettingsError(f"cannot listen on port {port}: {why}. Fix: choose another port with --port.") from None
        show(f"export GRAMHOUSE_BASE_URL={url} GRAMHOUSE_API_KEY={DEMO_KEY}", soft_wrap=True)
        err.print(
            "[dim]Serving API v1; stop with Ctrl-C. In another terminal, run the line above, then `gramhouse sync`.[/]"
        )
        serve(sandbox, listener)


def demo(
    *,
    folder: Annotated[str, Parameter(metavar="PATH")] = "data/demo",
    days: Annotated[int, number(1, 366)] = 7,
    keep: bool = False,
) -> None:
    """Run everything on this machine: a sandbox API, syncs, a first look.

    The sandbox's data change once a day. Each call syncs the days since the last one, and today.

    Args:
        folder: Where the demo keeps its files.
        days: Simulated days to sync into a new folder; the last one is today.
        keep: Serve the sandbox API until Ctrl-C, to try other commands.
    """
    load()
    from connectors.sandbox.http.app import Sandbox
    from connectors.sandbox.http.serve import in_thread
    from connectors.sandbox.settings import SandboxSettings

    snapshot = to_path("--folder", folder, lambda given: database(given / "analytics.duckdb"))
    now, due = SystemClock().now(), 0
    begins = first_day(snapshot.parent, days=days, now=now)
    today = (now - _SYNCED - begins).days
    if snapshot.exists():
        with open_snapshot(snapshot) as opened:
            [row] = opened.query("SELECT max(started_at) AS last FROM runs")
            due = min((row["last"] - begins).days + 1, today)
    first, often = int(begins.timestamp()), 6 * _ACCOUNTS
    sizes = SandboxSettings(first_day=first, day=today, accounts=_ACCOUNTS, posts=_POSTS, change_every=often)
    sandbox = Sandbox(sizes)
    show(f"[bold]gramhouse demo[/], {count(today - due + 1, 'day')} of a sandbox API with {_ACCOUNTS} accounts.")
    with in_thread(sandbox) as api:
        report = run_until_signalled(
            lambda _: _sync_days(sandbox, api, snapshot.parent, begins, range(due, today + 1)),
            lambda: "Fix: run `gramhouse demo` again.",
        )
    show(*describe_report(report))
    if report.state is RunState.FAILED:
        raise SystemExit(report.exit_code)
    _show_next(snapshot)
    if keep:
        _serve(sandbox)


def sandbox(
    *,
    port: Annotated[int, number(0, 65535)] = 8787,
    accounts: Annotated[int, number(0, 1_000_000)] = 40,
    posts: Annotated[int, number(0, 5_000_000)] = 60,
    stories: Annotated[int, number(0, 100)] = 2,
    seed: int = 7,
    day: Annotated[int, number(0, 10_000)] = 0,
) -> None:
    """Serve API v1 on this machine with generated data.

    The key is `sandbox-demo-key`. POST /_sandbox/day advances the data by one day.

    Days, rate limits and faults can be changed while it runs: see docs/commands.md.

    Args:
        port: Port on 127.0.0.1; 0 selects a free port.
        accounts: Number of accounts on the first day.
        posts: Posts per account, on average.
        stories: Stories per account and day, on average.
        seed: Seed of the random generator.
        day: Simulated day to start at, which is today; the data changes every day.
    """
    load()
    from connectors.sandbox.http.app import Sandbox
    from connectors.sandbox.settings import SandboxSettings

    first = int((_begin(SystemClock().now()) - timedelta(days=day)).timestamp())
    settings = SandboxSettings(seed=seed, accounts=accounts, posts=posts, stories=stories, day=day, first_day=first)
    _serve(Sandbox(settings), port)

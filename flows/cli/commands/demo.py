"""`gramhouse demo`: runs everything on this machine, and shows what came of it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from connectors.sandbox.http.keys import DEMO_KEY
from connectors.warehouse.queries.reader import open_snapshot
from connectors.warehouse.storage.durable import replace_file
from connectors.warehouse.storage.errors import SnapshotMissing
from connectors.warehouse.storage.paths import database
from connectors.warehouse.storage.statements import statements
from flows.cli.options import number, to_path
from flows.cli.output.query import print_table
from flows.cli.output.terminal import DONE, clean, err, out
from flows.clock import ContinuedClock, SystemClock
from flows.config.errors import SettingsError
from flows.config.prefect_environment import environment
from flows.config.settings import check_variables, load
from flows.orchestration.processes import free_port, import_prefect, local_prefect, prefect, private
from flows.reporting.exit_code import ExitCode
from flows.reporting.words import count
from models.feeds import FEEDS

if TYPE_CHECKING:
    from connectors.sandbox.http.app import Sandbox
    from connectors.sandbox.settings import SandboxSettings

_SQL = statements(__name__)

# Simulated days before today at the least, so that the first calls, each one day later, are not in the future.
_BEFORE = 3

# When a simulated day begins, and when it is synced.
_BEGINS, _SYNCED = timedelta(hours=2), timedelta(hours=2, minutes=15)

# Few and small, so that many days take seconds.
_ACCOUNTS, _POSTS = 12, 30


def first_day(folder: Path, *, days: int, now: datetime) -> datetime:
    """Return the time (UTC) at which the demo's first simulated day began, which is kept in its folder.

    Raises SettingsError for the folder of an earlier version's demo, and if the file is damaged.
    """
    file = folder / "first_day"
    if not file.exists():
        if (folder / "warehouse.duckdb").exists():
            raise SettingsError(
                f"{folder} has the demo of an earlier version. Fix: delete it, or choose another --folder."
            )
        folder.mkdir(parents=True, exist_ok=True)
        today = (now - _SYNCED).replace(hour=0, minute=0, second=0, microsecond=0)
        begins = today + _BEGINS - timedelta(days=max(days - 1, _BEFORE))
        replace_file(file, begins.isoformat().encode())
    try:
        return datetime.fromisoformat(file.read_text(encoding="utf-8"))
    except ValueError:
        raise SettingsError(f"{file} is damaged. Fix: delete {folder}, or choose another --folder.") from None


def sandbox_settings(begins: datetime, day: int) -> "SandboxSettings":
    """Return the settings of the demo's sandbox on a simulated day."""
    from connectors.sandbox.settings import SandboxSettings

    return SandboxSettings(
        day=day, first_day=int(begins.timestamp()), accounts=_ACCOUNTS, posts=_POSTS, change_every=6 * _ACCOUNTS
    )


def past_days(sandbox: "Sandbox", api: str, folder: Path, begins: datetime, days: Sequence[int]) -> None:
    """Sync at 02:15 of each of these days, by a clock of that day, directly and without Prefect."""
    from flows.config.options import SyncOptions
    from flows.engine.resources import open_resources
    from flows.engine.run_request import RunRequest
    from flows.pipeline import run_sync

    files = {"warehouse": folder / "warehouse.duckdb", "snapshot": str(folder / "analytics.duckdb")}
    settings = load(base_url=api, api_key=DEMO_KEY, **files)
    request = RunRequest(settings.model_copy(update={"report": None}), SyncOptions(rebind=True))

    async def sync() -> None:
        # Opened once, because opening takes as long as syncing so few accounts.
        async with open_resources(settings, "gramhouse demo") as resources:
            for day in days:
                sandbox.day = day
                began = begins + timedelta(days=day) + _SYNCED - _BEGINS
                with err.status(f"[dim]syncing day {day + 1} of {days[-1] + 2} …[/]"):
                    clock = ContinuedClock(resources.clock, began, resources.clock.monotonic())
                    await run_sync(request, replace(resources, clock=clock))

    if days:
        asyncio.run(sync())


def _contents(snapshot: Path) -> tuple[int, int, int, Mapping[str, int]]:
    """Return what the snapshot holds; nothing if there is none yet."""
    try:
        with open_snapshot(snapshot) as opened:
            [(accounts, gone, runs, items)] = opened.query(_SQL["contents"]).rows
            return accounts, gone, runs, items or {}
    except SnapshotMissing:
        return 0, 0, 0, {}


def _show(snapshot: Path) -> None:
    """Show what the snapshot holds, the answer to a question, and commands that do not need changes of the shell."""
    accounts, gone, runs, present = _contents(snapshot)
    items = (count(number, FEEDS[surface].noun, surface) for surface, number in present.items())
    kept = f", and {count(gone, 'item')} that are no longer listed and are kept" if gone else ""
    holds = ", ".join((count(accounts, "account"), *items))
    out.print(f"\n{DONE} The snapshot holds {holds}{kept}, after {count(runs, 'sync')}.")
    out.print("\n[bold]Which posts have the most likes?[/]")
    out.print(_SQL["question"], markup=False)
    with open_snapshot(snapshot) as opened:
        print_table(opened.user_query(_SQL["question"]))
    given = Path(sys.argv[0])
    program = os.path.relpath(given) if given.is_relative_to(Path.cwd()) else str(given)
    program = clean(program) if given.name == "gramhouse" else "python -m flows.cli"
    here, folder = f"--snapshot {clean(snapshot)}", clean(snapshot.parent)
    out.print(
        f"\n[bold]Next steps[/]\n  Open [bold]{folder}/report.html[/] in a browser: charts and tables."
        f"\n  [cyan]{program} query {here} 'FROM runs'[/]\n  [cyan]{program} changes {here}[/]"
        f"\n  [cyan]{program} demo[/] [dim]syncs the next day, once it has begun[/]"
        f"\n[dim]All files are in {folder}; delete it to start over. To use a real API, see README.md.[/]",
        soft_wrap=True,
    )


def demo(
    *,
    folder: Annotated[str, Parameter(metavar="PATH", help="Where the demo keeps its files.")] = "data/demo",
    days: Annotated[
        int,
        number(1, 366, "Simulated days to sync, those synced before included."),
    ] = 1,
    keep: Annotated[bool, Parameter(help="Leave Prefect's UI open until Ctrl-C.")] = False,
) -> None:
    """Run everything on this machine: a sandbox API, Prefect, a sync, a query.

    Each call syncs the same catalogue one day later, up to today. With --days, earlier days are synced first, without
    Prefect.
    """
    check_variables()
    snapshot = to_path("--folder", folder, lambda given: database(given / "analytics.duckdb"))
    home = snapshot.parent
    begins = first_day(home, days=days, now=(now := SystemClock().now()))
    # Of a day that has not begun, everything would be in the future.
    first = min(_contents(snapshot)[2], today := (now - begins).days)
    last = min(max(first, days - 1), today)
    syncs = f"sync {last + 1}" if last == first else f"syncs {first + 1} to {last + 1}"
    out.print(
        f"[bold]gramhouse demo[/], {syncs}: a sandbox API with {_ACCOUNTS} accounts on this machine,"
        f" and {'one sync,' if last == first else 'a sync of each day, the last one'} tracked by a Prefect server."
    )
    from connectors.sandbox.http.app import Sandbox
    from connectors.sandbox.http.serve import in_thread

    sandbox = Sandbox(sandbox_settings(begins, first))
    port, of_prefect, report = free_port(), home / "prefect", home / "report.html"
    private(of_prefect)
    import_prefect(local_prefect(of_prefect, port))
    files = {
        "GRAMHOUSE_WAREHOUSE": str(home / "warehouse.duckdb"),
        "GRAMHOUSE_SNAPSHOT": str(snapshot),
        "GRAMHOUSE_REPORT": str(report),
    }
    with in_thread(sandbox) as api, prefect(of_prefect, port, report) as server:
        # While the server starts.
        past_days(sandbox, api, home, begins, range(first, last))
        with err.status("[dim]starting a Prefect server …[/]"):
            server.wait()
        sandbox.day = last
        synced = subprocess.run(
            [sys.executable, "-m", "flows.cli", "sync", "--rebind"],
            env=environment(GRAMHOUSE_BASE_URL=api, GRAMHOUSE_API_KEY=DEMO_KEY, **files),
            check=False,
        )
        if synced.returncode not in (ExitCode.COMPLETE, ExitCode.PARTIAL):
            raise SystemExit(synced.returncode)
        _show(snapshot)
        if keep:
            out.print(f"\n{DONE} Prefect's UI: [bold]http://127.0.0.1:{port}[/]. Ctrl-C ends it.")
            signal.signal(signal.SIGINT, signal.default_int_handler)
            with suppress(KeyboardInterrupt):
                Event().wait()

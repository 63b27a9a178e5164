"""`gramhouse demo`: runs everything on this machine, and shows queries of the result."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from connectors.sandbox.http.keys import DEMO_KEY
from connectors.warehouse.snapshot.reader import Snapshot, open_snapshot
from connectors.warehouse.storage.errors import SnapshotMissing
from connectors.warehouse.storage.paths import database
from flows.cli.options import to_path
from flows.cli.output.query_table import print_table
from flows.cli.output.terminal import DONE, FAIL, clean, err, out
from flows.clock import SystemClock
from flows.config.settings import check_variables, environment
from flows.orchestration.prefect_import import import_prefect
from flows.orchestration.processes import ProcessError, free_port, local_prefect, prefect, private
from flows.reporting.exit_code import ExitCode
from flows.reporting.words import count
from models.feeds import FEEDS

_QUERIES = {
    "What does the snapshot contain?": """
SELECT surface, count(*) AS items, count(DISTINCT account_id) AS accounts,
       round(avg(like_count)) AS avg_likes, max(published_at)::DATE AS newest,
       count(removed_at) AS removed_but_kept
FROM media GROUP BY surface ORDER BY surface
""",
    "Which posts have the most likes?": """
SELECT ig_username, like_count, comments_count, left(caption, 40) AS caption
FROM media WHERE surface = 'posts' AND removed_at IS NULL
ORDER BY like_count DESC LIMIT 4
""",
    "Which days of the week get the most likes?": """
SELECT dayname(published_at) AS day, count(*) AS posts,
       median(like_count)::INTEGER AS median_likes
FROM media WHERE surface = 'posts' GROUP BY day ORDER BY median_likes DESC LIMIT 3
""",
}

_CONTENTS = """
SELECT
    (SELECT count(*) FROM accounts WHERE removed_at IS NULL), count(*) FILTER (removed_at IS NOT NULL),
    (SELECT count(*) FROM runs WHERE state = 'complete'), histogram(surface) FILTER (removed_at IS NULL)
FROM media
"""


_NEXT = {
    "report --open": "the same data as charts in the browser",
    'query "FROM runs"': "your own query",
    "accounts --expired": "accounts whose token must be renewed",
    "status": "what is fresh and what is stale",
    "demo": "the next sync: posts are added and changed, stories expire",
}


def _program() -> str:
    given = Path(sys.argv[0])
    if given.name != "gramhouse":
        return "python -m flows.cli"
    here = Path.cwd()
    return str(given.relative_to(here)) if given.is_absolute() and given.is_relative_to(here) else str(given)


# The demo's first day is in the past, so that later calls, each one day later, are not in the future.
_BACK = timedelta(days=3)


def _next_day(snapshot: Path, now: datetime) -> tuple[int, datetime]:
    """Return the number of the demo's next simulated day, from 0, and the date of the first."""
    try:
        with open_snapshot(snapshot) as opened:
            ((days, began),) = opened.query("SELECT count(*), min(started_at) FROM runs WHERE state = 'complete'").rows
    except SnapshotMissing:
        days, began = 0, None
    return days, (began or now) - _BACK


@contextmanager
def _servers(folder: Path, day: int, first: datetime) -> Iterator[dict[str, str]]:
    from connectors.sandbox.http.app import Sandbox
    from connectors.sandbox.http.serve import in_thread
    from connectors.sandbox.settings import SandboxSettings

    at_two = datetime(first.year, first.month, first.day, 2, tzinfo=UTC)
    sandbox, port = Sandbox(SandboxSettings(day=day, first_day=int(at_two.timestamp()))), free_port()
    home, report = folder / "prefect", folder / "report.html"
    private(home)
    import_prefect(local_prefect(home, port))
    with in_thread(sandbox) as api, prefect(home, port, report) as server:
        with err.status("[dim]starting the sandbox API and a Prefect server …[/]"):
            server.wait()
        yield {
            "GRAMHOUSE_BASE_URL": api,
            "GRAMHOUSE_API_KEY": DEMO_KEY,
            "GRAMHOUSE_WAREHOUSE": str(folder / "warehouse.duckdb"),
            "GRAMHOUSE_SNAPSHOT": str(folder / "analytics.duckdb"),
            "GRAMHOUSE_REPORT": str(report),
        }


def _first_look(snapshot: Snapshot) -> None:
    from rich.syntax import Syntax

    accounts, gone, runs, present = snapshot.query(_CONTENTS).rows[0]
    items = (count(number, FEEDS[surface].noun, surface) for surface, number in (present or {}).items())
    contents = ", ".join((count(accounts, "account"), *items))
    kept = f", and {count(gone, 'item')} that were removed or expired and are kept" if gone else ""
    out.print(f"\n{DONE} The snapshot holds {contents}{kept}, after {count(runs, 'sync')}.")
    for question, sql in _QUERIES.items():
        out.print(f"\n[bold]{question}[/]")
        out.print(Syntax(sql.strip(), "sql", background_color="default", word_wrap=True))
        print_table(snapshot.user_query(sql))


def _next(folder: Path, snapshot: Path) -> None:
    program = _program()
    if (report := folder / "report.html").exists():
        out.print(f"\n{DONE} Report with charts and tables: open [bold]{clean(report)}[/] in a browser.")
    out.print(f"\n[bold]Next steps[/]\n  [cyan]export GRAMHOUSE_SNAPSHOT={clean(snapshot)}[/]")
    for command, what in _NEXT.items():
        out.print(f"  [cyan]{clean(program)} {command:<20}[/] [dim]{what}[/]")
    out.print(
        f"[dim]All files are in {clean(folder)}; delete the folder to start over. To use a real API, see README.md.[/]"
    )


def demo(
    *,
    folder: Annotated[str, typer.Option(metavar="PATH", help="Where the demo keeps its files.")] = "data/demo",
) -> None:
    """Run everything on this machine: a sandbox API, a Prefect server, one tracked sync and some queries.

    Each call syncs the same catalogue one day later.
    """
    check_variables()
    snapshot = to_path("--folder", folder, lambda given: database(given / "analytics.duckdb"))
    home = snapshot.parent
    day, first = _next_day(snapshot, SystemClock().now())
    out.print(
        f"[bold]gramhouse demo[/], sync {day + 1}: a sandbox API with 40 accounts on this machine,"
        " and one sync, tracked by a Prefect server."
    )
    try:
        with _servers(home, day, first) as env:
            synced = subprocess.run(
                [sys.executable, "-m", "flows.cli", "sync", "--rebind"], env=environment(**env), check=False
            )
    except ProcessError as error:
        err.print(f"{FAIL} {clean(error)}")
        raise typer.Exit(ExitCode.FAILED) from None
    if synced.returncode not in (ExitCode.COMPLETE, ExitCode.PARTIAL):
        raise typer.Exit(synced.returncode)
    with open_snapshot(snapshot) as opened:
        _first_look(opened)
    _next(home, snapshot)

"""`gramhouse accounts`, `runs`, `quarantine`, `query`, `describe`, `export`, `report`, `mcp`: read the snapshot."""

import sys
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import RenderableType

from connectors.warehouse.queries.reader import Record, mentions_raw_media, open_snapshot
from connectors.warehouse.storage.files import local
from connectors.warehouse.storage.sql import statements
from flows.cli.options import (
    AccountNames,
    SnapshotOptions,
    SurfaceNames,
    WarehouseOptions,
    current,
    current_snapshot,
    number,
    of_setting,
    to_path,
)
from flows.cli.table import SHOWN, fields, into_file, listing, print_stream
from flows.cli.terminal import DONE, WARN, Answer, clean, err, row
from flows.clock import SystemClock
from flows.config.errors import SettingsError
from flows.config.options import in_order
from flows.reporting.progress import notices
from flows.reporting.run_report import WEEKS
from flows.reporting.words import count, join, moment
from models.feeds import SURFACES
from models.runs import nearest

_SQL = statements(__name__)

# The number of records of the quarantine that are listed.
_LISTED = 20

_NEXT = """
To import media items, set the path of their id in gramhouse.toml (media_id), then run `gramhouse rebuild`.
Accounts recover by themselves: each sync reads them again and imports them once the API corrects them.
Give the correlation id to the API's support."""

_SURFACES = sorted(SURFACES)
_COUNTS = ", ".join(f"count(*) FILTER (m.surface = '{each}') AS {each}" for each in _SURFACES)

_STATES = {"complete": "green", "partial": "yellow", "interrupted": "yellow", "failed": "red", "running": "cyan"}

_MOST_WEEKS = 57

# The formats of a query's result by the ending of its file.
_FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".md": "markdown"}


def accounts(*, expired: bool = False, options: SnapshotOptions = SnapshotOptions()) -> Answer:
    """List accounts: status, token expiry and age of their media.

    Args:
        expired: Only accounts whose access token must be renewed.
    """
    with options.open() as opened:
        rows = opened.query(_SQL["accounts"].format(counts=_COUNTS), [expired])
    none = "No token is expired." if expired else "No accounts yet."
    return Answer({"accounts": rows}, _list_accounts(rows) if rows else [none])


def _list_accounts(rows: Sequence[Record]) -> Iterator[RenderableType]:
    now = SystemClock().now()
    shown = [each | {"scan_age": now - each["media_as_of"] if each["media_as_of"] else "never"} for each in rows]
    yield from listing(shown, f"ig_username account_id {' '.join(_SURFACES)} scan_age", prose="ig_username")
    # Below the table: a narrow terminal has no room for another column.
    for each in rows:
        what, since = each["status"].replace("_", " "), each["token_expired_since"]
        if each["missing_since"]:
            what, since = "missing", each["missing_since"]
        if what != "active":
            name = clean(each["ig_username"] or each["account_id"])
            yield row(f"[bold]{name}[/]:", text=f"{what}{f' since {moment(since)} UTC' if since else ''}")


def runs(*, last: Annotated[int, number()] = 20, options: WarehouseOptions = WarehouseOptions()) -> Answer:
    """List recent runs: what they landed and how they ended.

    Args:
        last: Number of runs.
    """
    settings = options.settings()
    state = current(settings, last)
    with open_snapshot(current_snapshot(settings)) as opened:
        rows = state.of(opened, settings.snapshot, last, is_chosen=True).runs
    if state.problem:
        notices.warning(state.problem)
    return Answer({"runs": rows}, _list_runs(rows))


def _list_runs(rows: Sequence[Record]) -> Iterator[RenderableType]:
    shown = []
    for each in rows:
        took = each["ended_at"] and each["ended_at"] - each["started_at"]
        # Of a run that the snapshot does not have yet, nothing is known of items.
        gone = None if each["removed"] is None else each["removed"] + each["expired"]
        shown.append(each | {"took": took, "gone": gone})
    yield from listing(shown, "seq started_at kind state took pages added changed gone", styles=_STATES)
    for each in rows:
        if why := join(", ", (each["selection"], join(": ", (each["error_code"], each["detail"])))):
            yield row(f"[bold]{each['seq']}[/]", text=why)


def quarantine(
    *, limit: Annotated[int | None, number()] = None, options: SnapshotOptions = SnapshotOptions()
) -> Answer:
    """List records in quarantine, newest first.

    Args:
        limit: Number of records to list. Default: 20, or all with --json.
    """
    with options.open() as opened:
        rows = opened.query(_SQL["quarantined"], [limit or (None if options.as_json else _LISTED)])
        reasons = opened.query(_SQL["reasons"])
    empty = f"{DONE} Quarantine is empty: every received record is in the tables."
    return Answer({"records": rows}, _list_quarantine(rows, reasons) if rows else [empty])


def _list_quarantine(rows: Sequence[Record], reasons: Sequence[Record]) -> Iterator[RenderableType]:
    total = sum(each["records"] for each in reasons)
    yield f"{WARN} {count(total, 'record')} rejected:"
    yield from (row(" ", text=f"{each['records']:,}: {each['reason']}") for each in reasons)
    yield ""
    yield from listing(rows, "seen_at ig_username correlation_id payload surface position", prose="payload")
    if len(rows) < total:
        yield f"The newest {len(rows):,} of {total:,}. List all with `gramhouse quarantine --limit {total}`."
    yield _NEXT


def query(
    # It may begin with a comment.
    sql: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    style: Annotated[
        Literal["table", "box", "line", "csv", "json", "jsonl", "markdown"] | None, Parameter(("--format", "-f"))
    ] = None,
    output: Annotated[str | None, Parameter(("--output", "-o"), metavar="FILE")] = None,
    options: SnapshotOptions = SnapshotOptions(),
) -> None:
    """Run a SQL query on the snapshot, even during a sync.

    In addition to the tables and views, raw_media contains the newest raw JSON of each media item. The number of rows
    goes to standard error.

    Args:
        sql: SQL query in DuckDB's dialect; `-` reads it from standard input.
        style: Output format; --json is json. Default: that of the file's name, such as rows.csv, or table.
        output: Write to this file.
    """
    target = None if output is None else to_path("--output", output, file_of_results)
    named = _FORMATS.get(target.suffix) if target else None
    chosen = "json" if options.as_json else style or named or "table"
    try:
        text = sys.stdin.buffer.read().decode() if sql == "-" else sql
    except UnicodeDecodeError as error:
        raise SettingsError("The query on standard input is not UTF-8. Fix: write it in UTF-8.") from error
    with options.open(with_raw=mentions_raw_media(text)) as opened:
        stream = opened.user_query(text, for_json=chosen in ("json", "jsonl"))
        with into_file(target):
            rows = print_stream(stream, chosen)
    more = f"; the first {SHOWN} are shown, `--format csv` prints all" if chosen in ("table", "box") else ""
    where = f" in {clean(target)}" if target else ""
    if options.log_format == "text":
        err.print(f"[dim]({count(rows, 'row')}{where}{more if rows > SHOWN else ''})[/]")


def file_of_results(path: Path) -> Path:
    """Return the path of a file for results. Raises ValueError for a name that tells programs something else."""
    if path.suffix in (".duckdb", ".sqlite", ".parquet"):
        raise ValueError(f"{path.suffix} is not the format of a query's result; choose another name, such as rows.csv")
    if path.exists() and not path.is_file():
        raise ValueError("it is not a file; leave out --output to write to standard output")
    return local(path)


def describe(
    table: str | None = None,
    /,
    *,
    form: Annotated[Literal["text", "dbt"], Parameter("--format")] = "text",
    options: SnapshotOptions = SnapshotOptions(),
) -> Answer | None:
    """List the snapshot's tables, views and macros, or the columns of one.

    Each has one line, which a terminal may cut.

    Args:
        table: Table, view or macro. Default: list all.
        form: text, or dbt for a sources.yml with all tables and views.
    """
    if form == "dbt" and (table is not None or options.as_json):
        raise SettingsError("--format dbt writes all tables, as YAML. Fix: leave out the table and --json.")
    with options.open() as opened:
        if form == "dbt":
            from flows.cli.dbt import sources

            sys.stdout.write(sources(opened))
            return None
        relations = opened.relations()
        if table is None:
            # The rows of views, which are expensive to compute, are not counted.
            rows = [one | {"rows": opened.count(one["name"]) if one["kind"] == "table" else None} for one in relations]
            return Answer({"tables": rows}, listing(rows, "name kind rows comment", prose="comment"))
        comments = {relation["name"]: relation["comment"] for relation in relations}
        if not (rows := opened.columns(table)):
            meant = nearest(table, comments)
            raise SettingsError(f"Unknown table or view {table!r}. {meant}Fix: `gramhouse describe` lists all.")
    head = f"[bold]{clean(table)}[/]: {clean(comments[table] or '')}\n"
    # DuckDB reads this shorter name, which leaves a narrow terminal room for comments.
    shown = [each | {"type": each["type"].replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")} for each in rows]
    lines = [head, *listing(shown, "name type comment", prose="type comment")]
    return Answer({"table": table, "columns": rows}, lines)


def export(
    folder: Annotated[str, Parameter(metavar="DIR")],
    /,
    *,
    raw: bool = False,
    options: SnapshotOptions = SnapshotOptions(),
) -> Answer:
    """Export the snapshot as Parquet files.

    Args:
        folder: Target folder; an earlier export in it is replaced.
        raw: Also export the raw store: every version of every media item as received.
    """
    from connectors.warehouse.queries.export import export as write_export

    at, tables = write_export(current_snapshot(options.settings()), to_path("DIR", folder), with_raw=raw)
    document = {"folder": folder, "published_at": at, "tables": tables}
    numbers = {"tables": len(tables), "bytes": sum(table["bytes"] for table in tables)}
    return Answer(document, fields(document | numbers))


def report(
    file: Annotated[str | None, Parameter(metavar="FILE")] = None,
    /,
    *,
    account: AccountNames = None,
    surface: SurfaceNames = None,
    weeks: Annotated[int, number(1, _MOST_WEEKS)] = WEEKS,
    show: Annotated[bool, Parameter("--open")] = False,
    options: SnapshotOptions = SnapshotOptions(),
) -> Answer:
    """Create a self-contained HTML report with charts and tables.

    The page makes no requests and runs no scripts, so it can be sent by mail and archived. Creating it does not block
    a sync.

    Exit codes: 0 written, 1 the snapshot cannot be read or the page cannot be written, 2 wrong usage.

    Args:
        file: Output file (GRAMHOUSE_REPORT). Default: report.html in the snapshot's folder.
        weeks: Number of weeks in daily charts.
        show: Open the report in the browser.
    """
    from flows.reporting.page import write_page

    settings = options.settings()
    path = settings.report_file() if file is None else to_path("FILE", file)
    surfaces = in_order(surface or [])
    written = write_page(current_snapshot(settings), path, account or (), surfaces=surfaces, weeks=weeks)
    document = {
        "report": str(path),
        "report_bytes": len(written.html.encode()),
        "published_at": written.published_at,
        "action_required": written.attention,
        "exit_code": 0,
    }
    if show and not webbrowser.open(path.resolve().as_uri()):
        notices.warning(f"Could not start a browser. Fix: open {path.resolve()} manually.")
    return Answer(document, fields(document))


def mcp(*, snapshot: Annotated[str | None, of_setting("snapshot")] = None) -> None:
    """Serve the snapshot to an agent, by the Model Context Protocol on standard input and output.

    Its tools are describe, query, changes, explain and status. They only read the snapshot, and what it hides stays
    hidden. An answer has at most 50,000 bytes, and takes at most a minute.
    """
    settings = SnapshotOptions(snapshot=snapshot).settings()
    current_snapshot(settings)
    try:
        from flows.cli.agent_tools import build_server
    except ImportError as error:
        fix = "Fix: install gramhouse with its extra 'mcp' (docs/analyst.md)."
        raise SettingsError(f"`gramhouse mcp` needs a library that is not installed. {fix}") from error
    build_server(settings.snapshot).run("stdio")

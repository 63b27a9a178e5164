"""`gramhouse query`, `describe`, `export`, `report` and `mcp`: read the snapshot."""

import sys
import webbrowser
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from humanize import naturalsize

from connectors.warehouse.queries.reader import mentions_raw_media, open_snapshot
from connectors.warehouse.storage.paths import local
from flows.cli.current import current_snapshot, open_current
from flows.cli.options import AccountNames, AsJson, LogFormat, SnapshotFile, SurfaceNames, number, to_path
from flows.cli.output.table import listing
from flows.cli.output.terminal import DONE, Answer, clean, err, out
from flows.config.errors import SettingsError
from flows.config.options import in_order
from flows.config.settings import load
from flows.reporting.progress import notices
from flows.reporting.reader import WEEKS
from flows.reporting.words import count, moment
from models.runs import nearest

_MOST_WEEKS = 57


def query(
    sql: Annotated[
        str,
        Parameter(
            help="SQL query in DuckDB's dialect; `-` reads it from standard input.",
            # It may begin with a comment.
            allow_leading_hyphen=True,
        ),
    ],
    /,
    *,
    style: Annotated[
        Literal["table", "box", "line", "csv", "json", "jsonl", "markdown"],
        Parameter(("--format", "-f"), help="Output format."),
    ] = "table",
    output: Annotated[str | None, Parameter(("--output", "-o"), metavar="FILE", help="Write to this file.")] = None,
    as_json: Annotated[bool, Parameter("--json", help="The same as --format json.")] = False,
    snapshot: SnapshotFile = None,
) -> None:
    """Run a SQL query on the snapshot, even during a sync.

    In addition to the tables and views, raw_media contains the newest raw JSON of each media item. The number of rows
    goes to standard error.
    """
    from flows.cli.output.query import SHOWN, into_file, print_stream

    settings, style = load(snapshot=snapshot), "json" if as_json else style
    target = None if output is None else to_path("--output", output, file_of_results)
    try:
        text = sys.stdin.buffer.read().decode() if sql == "-" else sql
    except UnicodeDecodeError as error:
        raise SettingsError("The query on standard input is not UTF-8. Fix: write it in UTF-8.") from error
    with open_snapshot(current_snapshot(settings), with_raw=mentions_raw_media(text)) as opened:
        stream = opened.user_query(text, for_json=style in ("json", "jsonl"))
        with into_file(target):
            rows = print_stream(stream, style)
    more = f"; the first {SHOWN} are shown, `--format csv` prints all" if style in ("table", "box") else ""
    where = f" in {clean(target)}" if target else ""
    err.print(f"[dim]({count(rows, 'row')}{where}{more if rows > SHOWN else ''})[/]")


def file_of_results(path: Path) -> Path:
    """Return the path of a file for results. Raises ValueError for one of a database."""
    if path.suffix in (".duckdb", ".sqlite"):
        raise ValueError("that name is for a database; choose another one, such as rows.csv")
    return local(path)


def describe(
    table: Annotated[str | None, Parameter(help="Table, view or macro. Default: list all.")] = None,
    /,
    *,
    form: Annotated[
        Literal["text", "dbt"],
        Parameter("--format", help="text, or dbt for a sources.yml with all tables and views."),
    ] = "text",
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> Answer | None:
    """List the snapshot's tables, views and macros, or the columns of one.

    Each has one line, which a terminal may cut.
    """
    if form == "dbt" and (table is not None or as_json):
        raise SettingsError("--format dbt writes all tables, as YAML. Fix: leave out the table and --json.")
    with open_current(snapshot) as opened:
        relations = opened.relations()
        if form == "dbt":
            from flows.cli.output.dbt import sources

            relations = [relation for relation in relations if relation["kind"] != "macro"]
            columns = {relation["name"]: opened.columns(relation["name"]) for relation in relations}
            [published] = opened.query("SELECT stale_after FROM published")
            out.out(sources(relations, columns, published["stale_after"]), end="")
            return None
        if table is None:
            # The rows of views, which are expensive to compute, are not counted.
            rows = [one | {"rows": opened.count(one["name"]) if one["kind"] == "table" else None} for one in relations]
            return Answer({"tables": rows}, listing(rows, ("name", "kind", "rows", "comment"), prose=["comment"]))
        comments = {relation["name"]: relation["comment"] for relation in relations}
        if not (rows := opened.columns(table)):
            meant = nearest(table, comments)
            raise SettingsError(f"Unknown table or view {table!r}. {meant}Fix: `gramhouse describe` lists all.")
    head = f"[bold]{clean(table)}[/]: {clean(comments[table] or '')}\n"
    return Answer(
        {"table": table, "columns": rows},
        [head, *listing(rows, ("name", "type", "comment"), prose=("type", "comment"))],
    )


def export(
    folder: Annotated[str, Parameter(metavar="DIR", help="Target folder; an earlier export in it is replaced.")],
    /,
    *,
    raw: Annotated[
        bool, Parameter(help="Also export the raw store: every version of every media item as received.")
    ] = False,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
    log_format: LogFormat = "text",
) -> Answer:
    """Export the snapshot as Parquet files."""
    from connectors.warehouse.queries.export import export as write_export

    published_at, tables = write_export(current_snapshot(load(snapshot=snapshot)), to_path("DIR", folder), with_raw=raw)
    size = naturalsize(sum(table["bytes"] for table in tables))
    line = (
        f"{DONE} {count(len(tables), 'table')}, {size}, in {clean(folder)}: the snapshot of {moment(published_at)} UTC"
    )
    return Answer({"folder": folder, "published_at": published_at, "tables": tables}, [line])


def report(
    file: Annotated[
        str | None,
        Parameter(
            metavar="FILE",
            help="Output file (GRAMHOUSE_REPORT). Default: report.html in the snapshot's folder.",
        ),
    ] = None,
    /,
    *,
    account: AccountNames = None,
    surface: SurfaceNames = None,
    weeks: Annotated[int, number("Number of weeks in daily charts.", 1, _MOST_WEEKS)] = WEEKS,
    show: Annotated[bool, Parameter("--open", help="Open the report in the browser.")] = False,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> Answer:
    """Create a self-contained HTML report with charts and tables.

    The page makes no requests and runs no scripts, so it can be sent by mail and archived. Creating it does not block
    a sync.

    Exit codes: 0 written, 1 the snapshot cannot be read or the page cannot be written, 2 wrong usage.
    """
    settings = load(snapshot=snapshot)
    from flows.reporting.page.page import write_page

    path = settings.report_file() if file is None else to_path("FILE", file)
    surfaces = in_order(surface or [])
    written = write_page(current_snapshot(settings), path, account or (), surfaces=surfaces, weeks=weeks)
    size = len(written.html.encode())
    document = {"report": str(path), "report_bytes": size, "published_at": written.published_at}
    document |= {"action_required": written.attention, "exit_code": 0}
    needs = f"; action required: {count(written.attention, 'item')}" if written.attention else ""
    made = f"the snapshot of {moment(written.published_at)} UTC{needs}"
    line = f"{DONE} {clean(path)} ({naturalsize(size)}): {made}"
    if show and not webbrowser.open(path.resolve().as_uri()):
        notices.warning(f"Could not start a browser. Fix: open {path.resolve()} manually.")
    return Answer(document, [line])


def mcp(*, snapshot: SnapshotFile = None) -> None:
    """Serve the snapshot to an agent, by the Model Context Protocol on standard input and output.

    Its tools are describe, query, changes, explain and status. They only read the snapshot, and what it hides stays
    hidden. An answer has at most 50,000 bytes, and takes at most a minute.
    """
    path = current_snapshot(load(snapshot=snapshot))
    try:
        from flows.cli.agent_tools import build_server
    except ImportError as error:
        fix = "Fix: install gramhouse with its extra 'mcp' (docs/analyst.md)."
        raise SettingsError(f"`gramhouse mcp` needs a library that is not installed. {fix}") from error
    build_server(str(path)).run("stdio")

"""`gramhouse query`, `gramhouse describe`, `gramhouse export` and `gramhouse report`: read the snapshot."""

import sys
import webbrowser
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from humanize import naturalsize

from connectors.warehouse.queries.reader import mentions_raw_media, open_snapshot
from connectors.warehouse.storage.errors import QueryError
from connectors.warehouse.storage.paths import local
from flows.cli.current import current_snapshot, open_current
from flows.cli.options import AccountNames, AsJson, LogFormat, SnapshotFile, SurfaceNames, number, to_path
from flows.cli.output.table import print_rows
from flows.cli.output.terminal import DONE, FAIL, WARN, clean, err, failure, out, print_json, print_result
from flows.config.errors import SettingsError
from flows.config.options import in_order
from flows.config.settings import Settings, load
from flows.reporting.exit_code import ExitCode
from flows.reporting.reader import WEEKS
from flows.reporting.words import count, moment
from models.text import nearest

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
    settings = load(snapshot=snapshot)
    target = None if output is None else to_path("--output", output, file_of_results)
    _run_query(settings, _read_sql(sql), "json" if as_json else style, target)


def file_of_results(path: Path) -> Path:
    """Return the path of a file for results. Raises ValueError for one of a database."""
    if path.suffix in (".duckdb", ".sqlite"):
        raise ValueError("that name is for a database; choose another one, such as rows.csv")
    return local(path)


def _read_sql(given: str) -> str:
    try:
        return sys.stdin.buffer.read().decode() if given == "-" else given
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"The query on standard input is not UTF-8 (byte {error.start + 1}). Fix: write it in UTF-8."
        ) from None


def _run_query(settings: Settings, text: str, style: str, target: Path | None) -> None:
    """Print a query's result, or write it to the file `target`. Raises SystemExit if the query fails."""
    from flows.cli.output.query import SHOWN, end_document, into_file, print_stream

    with_raw = mentions_raw_media(text)
    with open_snapshot(current_snapshot(settings), with_raw=with_raw, as_published=True) as opened:
        stream = None
        try:
            stream = opened.user_query(text, for_json=style in ("json", "jsonl"))
            with into_file(target):
                rows = print_stream(stream, style)
        except QueryError as error:
            code, why = ExitCode.WRONG_USAGE, str(error)
            if with_raw and "checksum" in why:
                why += " Fix: `gramhouse doctor` names the damaged file."
            err.print(f"{FAIL} {clean(why, newlines=True)}")
            if style == "json":
                (print_json if stream is None or target else end_document)(failure(code, why))
            raise SystemExit(code) from None
    more = f"; the first {SHOWN} are shown, `--format csv` prints all" if style in ("table", "box") else ""
    where = f" in {clean(target)}" if target else ""
    err.print(f"[dim]({count(rows, 'row')}{where}{more if rows > SHOWN else ''})[/]")


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
) -> None:
    """List the snapshot's tables, views and macros, or the columns of one.

    Each has one line, which a terminal may cut.
    """
    if form == "dbt" and (table is not None or as_json):
        raise SettingsError("--format dbt writes all tables, as YAML. Fix: leave out the table and --json.")
    with open_current(snapshot) as opened:
        relations = opened.relations()
        comments = {relation["name"]: relation["comment"] for relation in relations}
        if form == "dbt":
            from flows.cli.output.dbt import sources

            relations = [relation for relation in relations if relation["kind"] != "macro"]
            columns = {relation["name"]: opened.columns(relation["name"]) for relation in relations}
            [(stale_after,)] = opened.query("SELECT max(stale_after) FROM published").rows
            out.out(sources(relations, columns, stale_after), end="")
            return
        if table is None:
            # The rows of views, which are expensive to compute, are not counted.
            rows = [one | {"rows": opened.count(one["name"]) if one["kind"] == "table" else None} for one in relations]
        elif not (rows := opened.columns(table)):
            meant = nearest(table, comments)
            raise SettingsError(f"Unknown table or view {table!r}. {meant}Fix: `gramhouse describe` lists all.")
    if as_json:
        print_json({"tables": rows} if table is None else {"table": table, "columns": rows})
        return
    if table is not None:
        out.print(f"[bold]{clean(table)}[/]: {clean(comments[table] or '')}\n")
    names = ("name", "kind", "rows") if table is None else ("name", "type")
    print_rows(rows, dict(zip(names, names, strict=True)) | {"description": "comment"}, prose=("type", "description"))


def export(
    folder: Annotated[str, Parameter(metavar="DIR", help="Target folder; an earlier export in it is replaced.")],
    /,
    *,
    raw: Annotated[
        bool, Parameter(help="Also export the raw store: every version of every media item as received.")
    ] = False,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
    _: LogFormat = "text",
) -> None:
    """Export the snapshot as Parquet files."""
    from connectors.warehouse.queries.export import export as write_export

    settings = load(snapshot=snapshot)
    exported = write_export(current_snapshot(settings), to_path("DIR", folder), with_raw=raw)
    rows = [asdict(table) for table in exported.tables]
    document = {"folder": folder, "published_at": exported.published_at, "tables": rows}
    size, tables = naturalsize(sum(table.bytes for table in exported.tables)), count(len(rows), "table")
    line = f"{DONE} {tables}, {size}, in {clean(folder)}: the snapshot of {moment(exported.published_at)} UTC"
    print_result(document, [line], as_json=as_json)


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
    weeks: Annotated[int, number(1, _MOST_WEEKS, "Number of weeks in daily charts.")] = WEEKS,
    show: Annotated[bool, Parameter("--open", help="Open the report in the browser.")] = False,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a self-contained HTML report with charts and tables.

    The page makes no requests and runs no scripts, so it can be sent by mail and archived. Creating it does not block
    a sync.

    Exit codes: 0 written, 1 the snapshot cannot be read or the page cannot be written, 2 wrong usage.
    """
    settings = load(snapshot=snapshot)
    from flows.reporting.page.write import write_page

    path = settings.report_file() if file is None else to_path("FILE", file)
    written = write_page(
        current_snapshot(settings),
        path,
        account or (),
        surfaces=in_order(surface or []),
        weeks=weeks,
        apart_from=settings.warehouse,
    )
    size, needed = len(written.html.encode()), written.attention
    contents = {"published_at": written.published_at, "action_required": needed}
    needs = f"; action required: {count(needed, 'item')}" if needed else ""
    made = f"the snapshot of {moment(written.published_at)} UTC{needs}"
    print_result(
        {"report": str(path), "report_bytes": size, **contents, "exit_code": 0},
        [f"{DONE} {clean(path)} ({naturalsize(size)}): {made}"],
        as_json=as_json,
    )
    if show and not webbrowser.open(path.resolve().as_uri()):
        err.print(f"{WARN} Could not start a browser. Fix: open {clean(path.resolve())} manually.", soft_wrap=True)

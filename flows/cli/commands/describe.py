"""`gramhouse describe`: list the snapshot's tables or a table's columns."""

from typing import Annotated, Any, Literal

import typer

from connectors.warehouse.snapshot.reader import Snapshot, open_snapshot
from flows.cli.commands.listing import plain_table
from flows.cli.fetching import current_snapshot
from flows.cli.options import AsJson, SnapshotFile
from flows.cli.output.terminal import clean, out, print_json
from flows.config.errors import SettingsError
from flows.config.settings import load

# A view over a table of the same name stands for that table; the others are computed.
_RELATIONS = """
SELECT r.name, r.kind, r.comment, r.rows
FROM (
    SELECT table_name AS name, 'table' AS kind, comment, estimated_size AS rows
    FROM duckdb_tables() WHERE schema_name = 'main'
    UNION ALL
    SELECT v.view_name, if(t.table_name IS NULL, 'view', 'table'), v.comment, t.estimated_size
    FROM duckdb_views() AS v
    LEFT JOIN duckdb_tables() AS t ON t.schema_name = 'core' AND t.table_name = v.view_name
    WHERE v.schema_name = 'main' AND NOT v.internal
) AS r
ORDER BY r.kind, r.name
"""

_COLUMNS = """
SELECT column_name AS name, data_type AS type, comment
FROM duckdb_columns() WHERE schema_name = 'main' AND table_name = ? ORDER BY column_index
"""


def _print_dbt(snapshot: Snapshot, relations: list[dict[str, Any]]) -> None:
    from flows.cli.output.dbt import sources

    columns = {relation["name"]: snapshot.ask(_COLUMNS, [relation["name"]]).records() for relation in relations}
    [(stale_after,)] = snapshot.ask("SELECT max(stale_after) FROM published").rows
    out.out(sources(relations, columns, stale_after), end="")


def describe(
    table: Annotated[str | None, typer.Argument(help="Table or view. Default: list all.")] = None,
    *,
    form: Annotated[
        Literal["text", "dbt"],
        typer.Option("--format", help="text, or dbt for a sources.yml with all tables and views."),
    ] = "text",
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> None:
    """List the tables and views of the snapshot, or the columns of one of them."""
    if form == "dbt" and (table is not None or as_json):
        message = "--format dbt writes all tables, as YAML. Fix: leave out the table and --json."
        raise SettingsError(message)
    with open_snapshot(current_snapshot(load(snapshot=snapshot))) as opened:
        relations = opened.ask(_RELATIONS).records()
        if form == "dbt":
            _print_dbt(opened, relations)
            return
        if table is None:
            rows = relations
        else:
            rows = opened.ask(_COLUMNS, [table]).records()
            if not rows:
                names = ", ".join(relation["name"] for relation in relations)
                message = f"Unknown table or view {table!r}. Fix: use one of {names}."
                raise SettingsError(message)
    if as_json:
        print_json({"tables": rows} if table is None else {"table": table, "columns": rows})
        return
    if table is not None:
        comment = next(relation["comment"] for relation in relations if relation["name"] == table)
        out.print(f"[bold]{clean(table)}[/]: {clean(comment or '')}\n")
    kinds = {"name": "", "type": ""} if table else {"name": "", "kind": "", "rows": "right"}
    shown = plain_table(kinds)
    if table is not None:
        # A nested type may be wider than the terminal.
        shown.columns[1].no_wrap, shown.columns[1].overflow = False, "fold"
    shown.add_column("description")
    for row in rows:
        cells = [f"{row[kind]:,}" if isinstance(row[kind], int) else clean(row[kind] or "") for kind in kinds]
        shown.add_row(*cells, clean(row["comment"] or ""))
    out.print(shown)

"""The data dictionary: the tables and views of the snapshot, generated from the declarations."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from sqlalchemy import Column, Table

from models.tables import SNAPSHOT
from models.tables.relations import Join, Relation
from models.views import views

_HEAD = """# Data dictionary

What analysts find in the snapshot, schema `main`. Times are TIMESTAMPTZ in UTC. The same is in the file
itself, as comments of its tables and columns: `gramhouse describe`, or `FROM duckdb_columns()`; for dbt:
`gramhouse describe --format dbt`.

This page is written by `make dictionary` from `models/tables` and `models/views`; a test compares them.
"""

_PICTURE = """## Keys and joins

Joined columns have the same name in both tables. Columns marked PK are a table's key; a line with `o` at both ends
joins rows of which some have no counterpart. A table for another array of objects that items carry has the key and the
joins of `media_children`. DuckDB enforces none of them; tests do.

```mermaid
{}
```
"""

_TYPES = {"TIMESTAMP": "TIMESTAMPTZ"}


@cache
def relations() -> Mapping[str, Relation]:
    """Return the keys and joins of the snapshot's tables and views, by name."""
    tables: dict[str, Relation] = {table.name: table.info["relation"] for table in SNAPSHOT.sorted_tables}
    return tables | {view.name: view.relation for view in views()}


def _type(column: Column[Any]) -> str:
    kind = str(column.type)
    return _TYPES.get(kind, kind)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(columns: tuple[str, ...]) -> str:
    return ", ".join(f"`{column}`" for column in columns)


def _join(join: Join) -> str:
    some = "" if join.always else ", not all rows"
    return f"[`{join.table}`](#{join.table}) by {_code(join.columns)}{some}"


def _keys(relation: Relation) -> str:
    key = f"Key: {_code(relation.key)}." if relation.key else "It has no key."
    if not relation.is_unique:
        key = f"{key} An item that one page lists twice with different content may have two rows with the same time."
    joins = f" Joins: {'; '.join(map(_join, relation.joins))}." if relation.joins else ""
    return key + joins


def _entity(table: Table) -> Iterator[str]:
    relation = relations()[table.name]
    led = {column for join in relation.joins for column in join.columns}
    yield f"    {table.name} {{"
    for column in table.columns:
        marks = ["PK"] * (column.name in relation.key) + ["FK"] * (column.name in led)
        if marks:
            yield f"        {_type(column)} {column.name} {', '.join(marks)}"
    yield "    }"


def diagram() -> str:
    """Return the tables with their keys and joins as a Mermaid diagram."""
    tables = SNAPSHOT.sorted_tables
    lines = ["erDiagram", *(line for table in tables for line in _entity(table))]
    for table in tables:
        for join in relations()[table.name].joins:
            one = "||" if join.always else "|o"
            lines.append(f'    {join.table} {one}--o{{ {table.name} : "{", ".join(join.columns)}"')
    return "\n".join(lines)


def _tables() -> Iterator[str]:
    for table in SNAPSHOT.sorted_tables:
        yield f"\n### {table.name}\n\n{table.comment}\n\n{_keys(relations()[table.name])}\n"
        yield "| column | type | |\n|---|---|---|"
        for column in table.columns:
            yield f"| `{column.name}` | {_type(column)} | {_cell(column.comment or '')} |"


def _views() -> Iterator[str]:
    for view in views():
        yield f"\n### {view.name}\n\n{view.comment}\n\n{_keys(view.relation)}\n\n| column | |\n|---|---|"
        for column, comment in view.columns.items():
            yield f"| `{column}` | {_cell(comment)} |"
        yield f"\n```sql\n{view.select}\n```"


def markdown() -> str:
    """Return the data dictionary as a Markdown page."""
    return "\n".join([_HEAD, _PICTURE.format(diagram()), "## Tables", *_tables(), "\n## Views", *_views()]) + "\n"

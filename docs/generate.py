"""`make docs`: the data dictionary, from an empty snapshot and the views' keys and joins, and the table of settings."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic.fields import FieldInfo

from connectors.warehouse.queries.reader import open_snapshot
from flows.config.environment import PREFIX
from flows.config.settings import Settings
from flows.engine.publishing import publish_snapshot
from flows.engine.warehouse import open_files
from models.views import Join, Relation, View, macros, views

_DICTIONARY, _SETTINGS = Path("docs/data-dictionary.md"), Path("docs/settings.md")

_HEAD = """# Data dictionary

The tables and views of the snapshot, in schema `main`: [accounts and media](#tables), [runs](#tables-of-runs),
[views](#views), which are computed from these tables, and macros: [tables as of a time](#tables-as-of-a-time). Times
are TIMESTAMPTZ in UTC. The file contains the same descriptions as comments: `gramhouse describe`, or
`FROM duckdb_columns()`; for dbt: `gramhouse describe --format dbt`.
The queries are in [models/views](../models/views).

`make docs` generates this page from `models/views`; a test compares them.

## Keys and joins

Joined columns have the same name in both tables. A line with `o` at both ends joins rows of which some have no
counterpart. The table of any other list of objects in items has the key and the joins of `media_children`. DuckDB
enforces neither keys nor joins; tests check them.

```mermaid
erDiagram
{}
```
"""

_SETTING_HEAD = "| setting | default | |\n|---|---|---|\n"

_OF_RUNS = frozenset(
    ("completed_scans", "due_scans", "fields", "published", "quarantine", "run_outcomes", "run_warnings", "runs")
)

Columns = dict[str, list[dict[str, Any]]]


def is_stored(view: View) -> bool:
    """Return whether its rows are those of tables of the warehouse, instead of computed from other views."""
    return re.search(r"(FROM|JOIN) core\.", view.select) is not None


def _type(column: dict[str, Any]) -> str:
    return str(column["type"]).replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")


def _code(columns: Iterable[str]) -> str:
    return ", ".join(f"`{column}`" for column in columns)


def _join(join: Join) -> str:
    some = "" if join.always else ", not all rows"
    return f"[`{join.table}`](#{join.table}) by {_code(join.columns)}{some}"


def _duplicates(relation: Relation) -> str:
    if relation.nullable:
        return f"Rows without {_code(relation.nullable)} may have the same key."
    what = "item" if "media_id" in relation.key else "account"
    return f"An {what} that one page lists twice with different content may have two rows with the same time."


def _keys(relation: Relation) -> str:
    key = f"Key: {_code(relation.key)}." if relation.key else "It has no key."
    if relation.nullable:
        key = f"{key} {' and '.join(map(_code, ([name] for name in relation.nullable)))} may be NULL."
    if not relation.is_unique:
        key = f"{key} {_duplicates(relation)}"
    joins = f" Joins: {'; '.join(map(_join, relation.joins))}." if relation.joins else ""
    return key + joins


def _diagram(stored: list[View]) -> Iterator[str]:
    for view in stored:
        for join in view.relation.joins:
            one = "||" if join.always else "|o"
            yield f'    {join.table} {one}--o{{ {view.name} : "{", ".join(join.columns)}"'


def _section(view: View, columns: Columns) -> Iterator[str]:
    yield f"### {view.name}\n\n{view.comment}\n\n{_keys(view.relation)}\n"
    yield "| column | type | |\n|---|---|---|"
    for column in columns[view.name]:
        # DuckDB has no comments for columns of macros, so those of mapped ones are unknown.
        about = (column["comment"] or "").replace("|", "\\|")
        yield f"| `{column['name']}` | {_type(column)} | {about} |"
    yield ""


def dictionary() -> str:
    """Return docs/data-dictionary.md."""
    with TemporaryDirectory() as folder:
        now, snapshot = datetime.now(UTC), Path(folder) / "analytics.duckdb"
        settings = Settings(warehouse=Path(folder) / "warehouse.duckdb", snapshot=str(snapshot))
        with open_files(settings, "make docs", now=now) as files:
            publish_snapshot(files, settings, now=now)
        with open_snapshot(snapshot) as found:
            columns = {name: found.columns(name) for name in (*views(), *macros())}
            # As `gramhouse describe` says it.
            tables = {each["name"] for each in found.relations() if each["kind"] == "table"}
    shown = sorted([*views().values(), *macros().values()], key=lambda view: view.name)
    lines = [_HEAD.format("\n".join(_diagram([view for view in shown if is_stored(view) and not view.is_macro])))]
    parts = (
        ("Tables", tables - _OF_RUNS),
        ("Tables of runs", tables & _OF_RUNS),
        ("Views", views().keys() - tables),
        ("Tables as of a time", macros().keys()),
    )
    for title, names in parts:
        lines.append(f"## {title}\n")
        lines += (line for view in shown if view.name in names for line in _section(view, columns))
    return "\n".join(lines)


def table_of_settings() -> str:
    """Return the table of docs/settings.md: the variable of each setting, its default, its description and range."""
    return _SETTING_HEAD + "".join(
        f"| `{PREFIX}{name.upper()}` | {_default(field)} | {field.description} |\n"
        for name, field in Settings.model_fields.items()
    )


def _default(field: FieldInfo) -> str:
    if field.default in {None, ()}:
        return ""
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


if __name__ == "__main__":
    _DICTIONARY.write_text(dictionary(), encoding="utf-8")
    page = _SETTINGS.read_text(encoding="utf-8")
    _SETTINGS.write_text(re.sub(r"(^\|.*\n)+", lambda _: table_of_settings(), page, count=1, flags=re.M), "utf-8")

"""The data dictionary: what analysts find in the snapshot, written from the declarations."""

from collections.abc import Iterator

from models.tables import SNAPSHOT
from models.views import views

_HEAD = """# Data dictionary

What analysts find in the snapshot, schema `main`. Times are TIMESTAMPTZ in UTC. The same is in the file
itself, as comments of its tables and columns: `gramhouse describe`, or `FROM duckdb_columns()`.

This page is written by `make dictionary` from `models/tables` and `models/views`; a test compares them.
"""

_TYPES = {"TIMESTAMP": "TIMESTAMPTZ"}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _tables() -> Iterator[str]:
    for table in SNAPSHOT.sorted_tables:
        yield f"\n### {table.name}\n\n{table.comment}\n\n| column | type | |\n|---|---|---|"
        for column in table.columns:
            kind = str(column.type)
            yield f"| `{column.name}` | {_TYPES.get(kind, kind)} | {_cell(column.comment or '')} |"


def _views() -> Iterator[str]:
    for view in views():
        yield f"\n### {view.name}\n\n{view.comment}\n\n| column | |\n|---|---|"
        for column, comment in view.columns.items():
            yield f"| `{column}` | {_cell(comment)} |"
        yield f"\n```sql\n{view.select}\n```"


def markdown() -> str:
    """Return the data dictionary as a Markdown page."""
    return "\n".join([_HEAD, "## Tables", *_tables(), "\n## Views", *_views()]) + "\n"

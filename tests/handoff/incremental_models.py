"""The incremental models of docs/dbt: after each day they have the rows of a full refresh."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
from jinja2 import Template

MODELS = Path(__file__).parents[2] / "docs" / "dbt" / "models"
NAMES = ("media_items", "media_versions")
_KEY = "(account_id, surface, media_id)"


def query_of(name: str, *, is_incremental: bool) -> str:
    """Return the query of a model, as dbt renders it."""
    template = Template((MODELS / f"{name}.sql").read_text(encoding="utf-8"))
    rendered: str = template.render(
        source=lambda database, table: f"{database}.main.{table}",
        this=name,
        config=lambda **_: "",
        is_incremental=lambda: is_incremental,
    )
    return rendered


@contextmanager
def _attached(db: duckdb.DuckDBPyConnection, snapshot: Path) -> Iterator[None]:
    db.execute(f"ATTACH '{snapshot}' AS gramhouse (READ_ONLY)")
    try:
        yield
    finally:
        db.execute("DETACH gramhouse")


def check_models(db: duckdb.DuckDBPyConnection, snapshot: Path) -> None:
    """Raise AssertionError unless the models in this database have the rows of a full refresh from the snapshot."""
    with _attached(db, snapshot):
        for name in NAMES:
            db.execute(f"CREATE OR REPLACE TEMP TABLE refreshed AS {query_of(name, is_incremental=False)}")
            compare = f"(FROM {name} EXCEPT ALL FROM refreshed) UNION ALL (FROM refreshed EXCEPT ALL FROM {name})"
            if rows := db.execute(compare).fetchall():
                message = f"{name}: {len(rows)} rows differ from a full refresh, such as {rows[0]}"
                raise AssertionError(message)

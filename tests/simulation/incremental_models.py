"""The incremental models of docs/dbt: after each day they have the rows of a full refresh."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
from jinja2 import Template

from tests.simulation.protocol_checker import Violation

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
    """Raise Violation unless the models in this database have the rows of a full refresh from the snapshot."""
    with _attached(db, snapshot):
        for name in NAMES:
            db.execute(f"CREATE OR REPLACE TEMP TABLE refreshed AS {query_of(name, is_incremental=False)}")
            compare = f"(FROM {name} EXCEPT ALL FROM refreshed) UNION ALL (FROM refreshed EXCEPT ALL FROM {name})"
            if rows := db.execute(compare).fetchall():
                message = f"{name}: {len(rows)} rows differ from a full refresh, such as {rows[0]}"
                raise Violation(message)


class IncrementalModels:
    """The models in a database in memory, loaded as by dbt's strategy delete+insert."""

    def __init__(self) -> None:
        self._db = duckdb.connect()
        self._calls = 0

    def load(self, snapshot: Path) -> None:
        """Load what is new in the snapshot, two times out of three; otherwise the next call is late.

        Raises Violation if the result is not that of a full refresh.
        """
        self._calls += 1
        if self._calls % 3 == 2:
            return
        db = self._db
        with _attached(db, snapshot):
            stored = {name for (name,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
            for name in NAMES:
                if name not in stored:
                    db.execute(f"CREATE TABLE {name} AS {query_of(name, is_incremental=False)}")
                    continue
                db.execute(f"CREATE OR REPLACE TEMP TABLE loaded AS {query_of(name, is_incremental=True)}")
                db.execute(f"DELETE FROM {name} WHERE {_KEY} IN (SELECT {_KEY} FROM loaded)")
                db.execute(f"INSERT INTO {name} FROM loaded")
        check_models(db, snapshot)

"""Runs the steps of a merge: the .sql files of this folder."""

import re
from functools import cache
from importlib.resources import files
from typing import Any

from duckdb import DuckDBPyConnection

from connectors.warehouse.ingest.registered import ArrowTables
from models import incremental, removal
from models.feeds import LIFETIMES
from models.page_commit import POSITION_BITS

# A map in SQL: NULL for feeds whose items do not expire.
_LIFETIMES = ", ".join(f"'{name}': to_seconds({lifetime.total_seconds()})" for name, lifetime in LIFETIMES.items())

# In the files, `{name}` stands for one of these, for a table of the batch's items, or for a list of columns.
_CONSTANTS = {
    "position_bits": POSITION_BITS,
    "confirm_after_hours": removal.CONFIRM_AFTER_HOURS,
    "confirm_accounts_after_hours": removal.ACCOUNTS_CONFIRM_AFTER_HOURS,
    "lifetimes": f"MAP {{{_LIFETIMES}}}",
    "proofs": incremental.PROOFS,
    "proofs_again": incremental.PROOFS_AGAIN,
}

_CREATED = re.compile(r'^CREATE OR REPLACE TEMP (?P<kind>TABLE|VIEW) (?P<name>\w+|"[^"]+")', re.MULTILINE)


@cache
def _read(step: str) -> str:
    return files(__package__).joinpath(f"{step}.sql").read_text(encoding="utf-8")


class Steps:
    """The steps of one merge, in the open transaction, and the temporary tables that they create."""

    def __init__(self, db: DuckDBPyConnection, table: str) -> None:
        """Begin the steps of a batch whose items go to this table of schema `core`."""
        self.db = db
        self.resource = table
        self._tables = {
            "resource": table,
            "items": f"core.{table}",
            "versions": f"core.{table}_superseded",
            "metrics": f"core.{table}_metrics",
        }
        self.arrow = ArrowTables(db)
        self._created: dict[str, str] = {}

    def text(self, step: str, /, **columns: object) -> str:
        """Return the statements of a step, in which `{name}` stands for the argument `name`, a list of columns."""
        return _read(step).format(**_CONSTANTS, **self._tables, **columns)

    def run(self, step: str, /, *parameters: object, **columns: object) -> DuckDBPyConnection:
        """Execute the statements of a step (see `text`); return the result of the last one, which has parameters."""
        text = self.text(step, **columns)
        self._created.update((found["name"], found["kind"]) for found in _CREATED.finditer(text))
        return self.db.execute(text, parameters or None)

    def copy(self, name: str, rows: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        """Create or replace a table with the rows of an Arrow table: DuckDB takes 0.7 ms for each read of one."""
        self.db.register("arrow_rows", rows)
        self.db.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM arrow_rows")
        self.db.unregister("arrow_rows")
        self._created[name] = "TABLE"

    def drop(self) -> None:
        """Drop all temporary tables: they stay in memory until the connection is closed."""
        # In one call: one by one, such small statements take longer.
        self.db.execute(";\n".join(f"DROP {kind} temp.{name}" for name, kind in self._created.items()))
        self._created.clear()
        self.arrow.drop()

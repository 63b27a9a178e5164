"""Statements of SQLAlchemy on tables of the warehouse, for `runs/`, until its state is in SQLite.

They run on DuckDB's connection: SQLAlchemy never begins or ends a transaction, and errors are DuckDB's.
"""

from collections.abc import Collection

from duckdb import DuckDBPyConnection
from sqlalchemy import ARRAY, VARCHAR, ColumnElement, SelectBase, TableClause, UpdateBase, cast, column, func, select
from sqlalchemy import table as clause
from sqlalchemy.dialects import postgresql

from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.declared import TABLES

# Of these statements, DuckDB reads what PostgreSQL does.
_DIALECT = postgresql.dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]


def _clause(name: str) -> TableClause:
    schema, _, table = name.partition(".")
    return clause(table, *map(column, TABLES[name].types), schema=schema)


core_accounts = _clause("core.accounts")
core_outcomes = _clause("core.run_outcomes")
core_runs = _clause("core.runs")
core_warnings = _clause("core.run_warnings")
ops_checkpoints = _clause("ops.checkpoints")
ops_cooldowns = _clause("ops.cooldowns")
ops_forgotten = _clause("ops.forgotten")
ops_seen = _clause("ops.seen")
ops_service = _clause("ops.service")


def among(column: ColumnElement[str], values: Collection[str]) -> ColumnElement[bool]:
    """Return the condition that a column has one of these values.

    All values are one parameter, because each parameter is slow in DuckDB's client (docs/decisions/duckdb.md).
    """
    return column.in_(select(func.unnest(cast(list(values), ARRAY(VARCHAR)))))


def run(connection: Connection, statement: SelectBase | UpdateBase) -> DuckDBPyConnection:
    """Run a statement on declared tables; return its result. Raises duckdb.Error."""
    compiled = statement.compile(dialect=_DIALECT)
    return connection.db.execute(str(compiled), [compiled.params[name] for name in compiled.positiontup or ()])

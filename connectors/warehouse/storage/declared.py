"""SQL of the declared tables, compiled by SQLAlchemy's dialect for DuckDB.

Statements run on DuckDB's connection: SQLAlchemy never begins or ends a transaction, and errors are DuckDB's.
"""

from collections.abc import Collection, Mapping
from typing import Any

from duckdb import DuckDBPyConnection
from duckdb_sqlalchemy import Dialect
from sqlalchemy import ARRAY, VARCHAR, ColumnElement, SelectBase, Table, UpdateBase, cast, func, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateColumn, CreateTable
from sqlalchemy.sql.compiler import DDLCompiler

from connectors.warehouse.storage.connection import Connection
from models.tables import ITEM_TABLES

_DIALECT = Dialect(paramstyle="numeric_dollar")


@compiles(CreateColumn, "duckdb")
def _with_compression(create: CreateColumn, compiler: DDLCompiler, **options: Any) -> str:  # noqa: ANN401 - passed on
    column: str = compiler.visit_create_column(create, **options)  # type: ignore[no-untyped-call]
    compression = create.element.info.get("compression")
    return column if compression is None else f"{column} USING COMPRESSION {compression}"


def create_table(table: Table) -> str:
    """Return the statement that creates a table, without comments, which only the snapshot's views have."""
    return str(CreateTable(table).compile(dialect=_DIALECT))


def types_of(table: Table) -> Mapping[str, str]:
    """Return DuckDB's name for the type of each column."""
    return {column.name: column.type.compile(dialect=_DIALECT) for column in table.columns}


def of_all_items(columns: str, suffix: str = "") -> str:
    """Return the query for columns of the items of all feeds, or with `_superseded` of the earlier versions."""
    return " UNION ALL ".join(f"SELECT {columns} FROM core.{table}{suffix}" for table in ITEM_TABLES)  # noqa: S608


def among(column: ColumnElement[str], values: Collection[str]) -> ColumnElement[bool]:
    """Return the condition that a column has one of these values.

    All values are one parameter, because each parameter is slow in DuckDB's client (docs/decisions/duckdb.md).
    """
    return column.in_(select(func.unnest(cast(list(values), ARRAY(VARCHAR)))))


def run(connection: Connection, statement: SelectBase | UpdateBase) -> DuckDBPyConnection:
    """Run a statement on declared tables; return its result. Raises duckdb.Error."""
    compiled = statement.compile(dialect=_DIALECT)
    return connection.db.execute(str(compiled), [compiled.params[name] for name in compiled.positiontup or ()])

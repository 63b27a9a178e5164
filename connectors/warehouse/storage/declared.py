"""SQL of the declared tables, compiled by SQLAlchemy's dialect for DuckDB."""

from collections.abc import Mapping
from typing import Any

from duckdb_sqlalchemy import Dialect
from sqlalchemy import Table
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateColumn, CreateTable
from sqlalchemy.sql.compiler import DDLCompiler

_DIALECT = Dialect()


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

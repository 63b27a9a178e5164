"""Runs the statements of this folder: one .sql file each, named after the order in which they stand."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from duckdb import DuckDBPyConnection


@cache
def statement(name: str) -> str:
    """Return the text of a statement, with the lists of columns in braces not filled yet."""
    return files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def run(
    db: DuckDBPyConnection, name: str, *parameters: object, lists: Mapping[str, object] | None = None
) -> DuckDBPyConnection:
    """Run a statement; `lists` fill its braces. Raises duckdb.Error."""
    text = statement(name) if lists is None else statement(name).format(**lists)
    return db.execute(text, list(parameters))

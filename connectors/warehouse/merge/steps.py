"""Runs the steps of a merge: the .sql files of this folder."""

from functools import cache
from importlib.resources import files

from duckdb import DuckDBPyConnection

from models import removal

# In the files, `{name}` stands for one of these, or for a list of columns.
_CONSTANTS = {
    "confirm_accounts_after_hours": removal.ACCOUNTS_CONFIRM_AFTER_HOURS,
}


@cache
def _text(step: str) -> str:
    return files(__package__).joinpath(f"{step}.sql").read_text(encoding="utf-8")


def run(db: DuckDBPyConnection, step: str, **columns: str) -> None:
    """Execute the statements of a step, in which `{name}` stands for the argument `name`, a list of columns."""
    db.execute(_text(step).format(**_CONSTANTS, **columns))

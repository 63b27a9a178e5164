"""The items of all feeds, in the warehouse and in the snapshot."""

from collections.abc import Callable, Sequence
from typing import Any

from models.feeds import FEEDS

# A function that runs SQL with values for its parameters.
Ask = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]

_TABLES = """
SELECT 'core.' || table_name FROM duckdb_tables()
WHERE database_name = current_database() AND schema_name = 'core' AND list_contains(?, table_name)
"""


def feed_items(ask: Ask, columns: str) -> str:
    """Return the query for these columns of the items of all feeds.

    A snapshot that an earlier version published may lack tables; a copy of its views has all in its schema `main`.
    """
    tables = ask(_TABLES, [sorted({feed.table for feed in FEEDS.values()})]) or [("main.media",)]
    return " UNION ALL ".join(f"SELECT {columns} FROM {table}" for (table,) in tables)  # noqa: S608 - declared names

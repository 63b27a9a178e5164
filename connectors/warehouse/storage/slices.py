"""Processes tables that are too large to sort or join in one step, in slices of whole accounts."""

from collections.abc import Iterator

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.connection import value
from connectors.warehouse.storage.quoting import literal


def slices(db: DuckDBPyConnection, query: str, at_once: int) -> Iterator[str]:
    """Yield conditions on `account_id` that divide a query's rows into slices, in the order of accounts.

    A slice has at most `at_once` rows, unless a single account has more.
    """
    if value(db, f"SELECT count(*) FROM ({query})") <= at_once:  # noqa: S608 - callers pass constant queries
        yield "true"
        return
    counts = f"SELECT account_id, count(*) FROM ({query}) GROUP BY account_id ORDER BY account_id"  # noqa: S608
    after, held = "true", 0
    for account_id, rows in db.execute(counts).fetchall():
        if held and held + rows > at_once:
            yield f"{after} AND account_id < {literal(account_id)}"
            after, held = f"account_id >= {literal(account_id)}", 0
        held += rows
    yield after

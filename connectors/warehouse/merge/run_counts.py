"""What the merges of a run's landings changed.

The sums over all rows include everything ever merged, regardless of kills, resumed runs and retention: the sum of
`added` is the number of rows of media. An event is counted once, however the pages were divided into merges.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.sql import statements

_SQL = statements(__name__)

Counted = Counter[tuple[int, str]]
"""Numbers by run, and by the column of core.run_counts."""


def add_counts(db: DuckDBPyConnection, counted: Counted, run_ids: Mapping[int, str]) -> None:
    """Add numbers to core.run_counts, in the open transaction. `run_ids` are by number."""
    rows = [
        {"run_seq": run_seq, "run_id": run_ids[run_seq], "name": name, "number": number}
        for (run_seq, name), number in counted.items()
        if number
    ]
    if rows:
        db.execute(_SQL["counted"], [rows])


def read_counts(db: DuckDBPyConnection, run_id: str) -> dict[str, Any]:
    """Return the `pages`, `items` and `accounts_removed` of a run, and by name the changes of its `media`."""
    [row] = db.execute(_SQL["counts"], [run_id]).fetchall()
    return dict(zip(("pages", "items", "accounts_removed", "media"), row, strict=True))

"""What the merges of a run's landings changed.

The sums over all rows include everything ever merged, regardless of kills, resumed runs and retention: `sum(added)` is
the number of rows of media. An event is counted once, however the pages were divided into merges.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.statements import statements

_SQL = statements(__name__)

Counted = Counter[tuple[int, str]]
"""Numbers by run, and by the column of core.run_counts."""


_OF_MEDIA = ("added", "changed", "returned", "removed", "expired", "quarantined")
_OF_RUNS = ("pages", "items", "accounts_removed")
_NOTHING = dict.fromkeys((*_OF_RUNS, *_OF_MEDIA, "missed"), 0)


def add_counts(db: DuckDBPyConnection, counted: Counted, run_ids: Mapping[int, str]) -> None:
    """Add numbers to core.run_counts, in the open transaction. `run_ids` are by number."""
    rows = [
        {"run_seq": seq, "run_id": run_ids[seq], **{name: counted[seq, name] for name in _NOTHING}}
        for seq in {run_seq for (run_seq, _), number in counted.items() if number}
    ]
    if rows:
        db.execute(_SQL["counted"], [rows])


def read_counts(db: DuckDBPyConnection, run_id: str) -> dict[str, Any]:
    """Return the `pages`, `items` and `accounts_removed` of a run, and by name the changes of its `media`."""
    cursor = db.execute("FROM core.run_counts WHERE run_id = ?", [run_id])
    names = [name for name, *_ in cursor.description or ()]
    counts = dict(zip(names, cursor.fetchone() or (), strict=False)) or _NOTHING
    return {name: counts[name] for name in _OF_RUNS} | {"media": {name: counts[name] for name in _OF_MEDIA}}

"""What the merges of a run's landings changed.

The sums over all rows include everything ever merged, regardless of kills, resumed runs and retention: `sum(added)` is
the number of rows of media. An event is counted once, however the pages were divided into merges.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime

from duckdb import DuckDBPyConnection

from connectors.warehouse.storage.statements import statements
from models.checkpoint import RunKind
from models.runs import RunState

_SQL = statements(__name__)

Counted = Counter[tuple[int, str]]
"""Numbers by run, and by the column of core.run_counts."""


@dataclass(frozen=True, slots=True)
class MergeStats:
    """Numbers of changes of media items, and of quarantined records. `changed` counts every change of an item."""

    added: int = 0
    changed: int = 0
    returned: int = 0
    removed: int = 0
    expired: int = 0
    quarantined: int = 0


@dataclass(frozen=True, slots=True)
class RunCounts:
    """The pages and items that one run landed, as far as merged, and the resulting changes."""

    run_id: str
    kind: RunKind
    state: RunState
    started_at: datetime
    pages: int = 0
    items: int = 0
    accounts_removed: int = 0
    media: MergeStats = MergeStats()


_OF_MEDIA = tuple(one.name for one in fields(MergeStats))
# The columns of core.run_counts that a report of a run has.
_NAMES = ("pages", "items", "accounts_removed", *_OF_MEDIA)


def add_counts(db: DuckDBPyConnection, counted: Counted, run_ids: Mapping[int, str]) -> None:
    """Add numbers to core.run_counts, in the open transaction. `run_ids` are by number."""
    rows = [
        {"run_seq": seq, "run_id": run_ids[seq], **{name: counted[seq, name] for name in (*_NAMES, "missed")}}
        for seq in {run_seq for (run_seq, _), number in counted.items() if number}
    ]
    if rows:
        db.execute(_SQL["counted"], [rows])


def read_counts(db: DuckDBPyConnection, run_ids: Collection[str]) -> Mapping[str, tuple[int, int, int, MergeStats]]:
    """Return pages, items, removed accounts and changes of these runs, for those that landed anything, by run."""
    query = f"SELECT run_id, {', '.join(_NAMES)} FROM core.run_counts WHERE list_contains(?, run_id)"  # noqa: S608 - constants
    rows = db.execute(query, [list(run_ids)]).fetchall()
    return {
        run_id: (pages, items, accounts_removed, MergeStats(*media))
        for run_id, pages, items, accounts_removed, *media in rows
    }

"""Changes per run: counted by the merge, in its transaction, for the run that landed each page.

The sums over all rows include everything ever merged, regardless of kills, resumed runs and retention: `sum(added)` is
the number of rows of all tables of items. An event is counted once, however the pages were divided into merges.
"""

from collections.abc import Collection
from dataclasses import dataclass, fields
from datetime import datetime

from connectors.warehouse.merge.steps import Steps
from connectors.warehouse.storage.connection import Connection
from models.checkpoint import RunKind
from models.runs import RunState


@dataclass(frozen=True, slots=True)
class MergeStats:
    """Numbers of changes of media items, and of quarantined records. `changed` counts every change of an item."""

    added: int = 0
    changed: int = 0
    returned: int = 0
    removed: int = 0
    expired: int = 0
    quarantined: int = 0

    def __add__(self, other: "MergeStats") -> "MergeStats":
        return MergeStats(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, slots=True)
class RunCounts:
    """The pages and items that one run landed, as far as merged, and the resulting changes."""

    run_id: str
    kind: RunKind
    state: RunState
    started_at: datetime
    pages: int
    items: int
    accounts_removed: int
    media: MergeStats


# The columns of `core.run_counts`.
NAMES = ("pages", "items", "accounts_removed", *(one.name for one in fields(MergeStats)))
_SUMS = ", ".join(f"sum({name})::BIGINT AS {name}" for name in NAMES)

_COUNTED = {
    "counts_of_events": "".join(
        f", coalesce(sum(number) FILTER (what = '{name}'), 0)::BIGINT AS {name}" for name in NAMES
    ),
    "counts_added": ", ".join(f"{name} = coalesce(c.{name}, 0) + n.{name}" for name in NAMES),
    "counts_in_all": ", ".join(f"coalesce(sum({one.name}), 0)::BIGINT" for one in fields(MergeStats)),
}


def count_changes(steps: Steps) -> MergeStats:
    """Add the changes of a batch, in `run_numbers`, to the counts of its runs; return their sums."""
    [numbers] = steps.run("counts", **_COUNTED).fetchall()
    return MergeStats(*numbers)


_OF_RUNS = f"""
SELECT r.run_id, r.kind, r.state, r.started_at, {", ".join(f"coalesce(c.{name}, 0)" for name in NAMES)}
FROM core.runs AS r LEFT JOIN core.run_counts AS c USING (run_id)
WHERE list_contains(?, r.run_id) ORDER BY r.seq
"""  # noqa: S608 - constants


def of_runs(connection: Connection, run_ids: Collection[str]) -> tuple[RunCounts, ...]:
    """Return the counts of these runs, in the order in which the runs began."""
    rows = connection.db.execute(_OF_RUNS, [list(run_ids)]).fetchall()
    return tuple(
        RunCounts(run_id, kind, RunState(state), started_at, pages, items, accounts_removed, MergeStats(*media))
        for run_id, kind, state, started_at, pages, items, accounts_removed, *media in rows
    )


def forget(connection: Connection) -> None:
    """Combine the counts of all runs that are no longer listed into one row, in the open transaction."""
    for statement in (
        "CREATE OR REPLACE TEMP TABLE unlisted AS FROM core.run_counts ANTI JOIN core.runs USING (run_id)",
        "DELETE FROM core.run_counts WHERE run_id IN (SELECT run_id FROM unlisted)",
        f"INSERT INTO core.run_counts BY NAME SELECT '' AS run_id, {_SUMS} FROM unlisted HAVING count(*) > 0",  # noqa: S608
        "DROP TABLE temp.unlisted",
    ):
        connection.db.execute(statement)

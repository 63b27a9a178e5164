"""Changes per run: counted by the merge, in its transaction, for the run that landed each page.

The sums over all rows include everything ever merged, regardless of kills, resumed runs and retention: `sum(added)` is
the number of rows of `core.media`. An event is counted once, however the pages were divided into merges.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime

from duckdb import DuckDBPyConnection

from connectors.warehouse.ingest.landing.frames import POSITION_BITS
from connectors.warehouse.merge.merge_batch import MediaItems, MergeBatch
from connectors.warehouse.storage.connection import Connection, value
from connectors.warehouse.storage.quoting import literal
from models.runs import RunState
from models.tables.columns import run_counts


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

    @property
    def untouched(self) -> bool:
        """Whether no media item was added, changed, returned or removed."""
        return not (self.added or self.changed or self.returned or self.removed or self.expired)


@dataclass(frozen=True, slots=True)
class RunCounts:
    """The pages and items that one run landed, as far as merged, and the resulting changes."""

    run_id: str
    kind: str
    state: RunState
    started_at: datetime
    pages: int
    items: int
    accounts_removed: int
    media: MergeStats


@dataclass(frozen=True, slots=True)
class MergedRelations:
    """The relations of a batch from which its changes are counted; None if they have no rows.

    Landed: listed `accounts`, `rejected_records`, and media items. Then the rows `to_write`, the items that scans
    `missed`, accounts that are gone, and newly `quarantined` records.
    """

    accounts: str | None
    rejected_records: str | None
    items: MediaItems | None
    to_write: str | None
    missed: str | None
    gone_accounts: str | None
    quarantined: str | None


NAMES = tuple(column.name for column in run_counts())
_SUMS = ", ".join(f"sum({name})::BIGINT AS {name}" for name in NAMES)

# The first observation of an item adds it or, if it was removed, returns it; every later one that differs is a change.
_FIRST = "SELECT first_order_key FROM {to_write} WHERE first_order_key IS NOT NULL"

# What the run that landed a page is credited with, by the page's landing number. Without a scan id: malformed pages,
# which landed only for quarantine, and items that a rebuild imports from it, which were counted when they landed.
_PAGES = "SELECT seq, 'pages' AS what FROM pages WHERE scan_id <> ''"
_ITEMS = "SELECT seq, 'items' FROM {sightings} WHERE scan_id <> ''"
_ACCOUNTS = "SELECT seq, 'items' FROM {accounts} WHERE status IS NOT NULL"
_REJECTED_ACCOUNTS = "SELECT seq, 'items' FROM {rejected} WHERE resource = 'accounts' AND position IS NOT NULL"
_FIRST_SIGHTINGS = f"""
SELECT first_order_key >> {POSITION_BITS}, if(is_new, 'added', 'returned') FROM {{to_write}}
WHERE first_order_key IS NOT NULL
"""  # noqa: S608 - constants
_NEW = "SELECT seq, 'added' FROM {found} WHERE media_id IS NOT NULL"
_NOT_COMPARED = " AND order_key NOT IN (SELECT order_key FROM {to_compare})"
_CHANGED = f"SELECT order_key >> {POSITION_BITS}, 'changed' FROM {{changed}} WHERE order_key NOT IN ({_FIRST})"  # noqa: S608

# What a run is credited with itself: a removal is counted for the run whose scan was complete without the item.
_OF_RUNS_ITSELF = {
    "missed": "SELECT run_id, removal FROM {missed} WHERE removal IS NOT NULL",
    "gone_accounts": "SELECT run_id, 'accounts_removed' FROM {gone_accounts} WHERE is_gone",
    "quarantined": "SELECT run_id, 'quarantined' FROM {quarantined}",
}


def _counted(merged: MergedRelations) -> str:
    landed = [_PAGES]
    if (items := merged.items) is not None:
        landed.append(_ITEMS.format(sightings=items.sightings))
        if items.found is not None:
            not_compared = _NOT_COMPARED if items.to_compare is not None else ""
            landed.append((_NEW + not_compared).format(found=items.found, to_compare=items.to_compare))
        if items.changed_keys is not None:
            landed.append(_CHANGED.format(changed=items.changed_keys, to_write=merged.to_write))
    if merged.to_write is not None:
        landed.append(_FIRST_SIGHTINGS.format(to_write=merged.to_write))
    if merged.accounts is not None:
        landed.append(_ACCOUNTS.format(accounts=merged.accounts))
    if merged.rejected_records is not None:
        landed.append(_REJECTED_ACCOUNTS.format(rejected=merged.rejected_records))
    queries = [f"SELECT run_id, what FROM ({' UNION ALL '.join(landed)}) JOIN pages USING (seq)"]  # noqa: S608
    for name, query in _OF_RUNS_ITSELF.items():
        if (relation := getattr(merged, name)) is not None:
            queries.append(query.format(**{name: relation}))
    return f"SELECT run_id, what, count(*) FROM ({' UNION ALL '.join(queries)}) GROUP BY run_id, what"  # noqa: S608


def _media(numbers: Mapping[str, int]) -> MergeStats:
    return MergeStats(**{field.name: numbers[field.name] for field in fields(MergeStats)})


def count_changes(batch: MergeBatch, merged: MergedRelations) -> MergeStats:
    """Add the changes of a batch to the counts of its runs, in the open transaction; return their sums."""
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for run_id, what, number in batch.db.execute(_counted(merged)).fetchall():
        counted[run_id][what] = number
    for run_id, numbers in counted.items():
        _add(batch.db, run_id, numbers)
    return sum(map(_media, counted.values()), MergeStats())


def _add(db: DuckDBPyConnection, run_id: str, numbers: Mapping[str, int]) -> None:
    more = ", ".join(f"{name} = coalesce({name}, 0) + {numbers[name]}" for name in NAMES)
    update = f"UPDATE core.run_counts SET {more} WHERE run_id = {literal(run_id)}"  # noqa: S608 - quoted
    if not value(db, update):
        values = ", ".join([literal(run_id), *(str(numbers[name]) for name in NAMES)])
        db.execute(f"INSERT INTO core.run_counts (run_id, {', '.join(NAMES)}) VALUES ({values})")  # noqa: S608


_OF_RUNS = f"""
SELECT r.run_id, r.kind, r.state, r.started_at, {", ".join(f"coalesce(c.{name}, 0)" for name in NAMES)}
FROM core.runs AS r LEFT JOIN core.run_counts AS c USING (run_id)
WHERE list_contains(?, r.run_id) ORDER BY r.seq
"""  # noqa: S608 - constants


def of_runs(connection: Connection, run_ids: Collection[str]) -> tuple[RunCounts, ...]:
    """Return the counts of these runs, in the order in which the runs began."""
    found: list[RunCounts] = []
    for run_id, kind, state, started_at, *numbers in connection.db.execute(_OF_RUNS, [list(run_ids)]).fetchall():
        counts = dict(zip(NAMES, numbers, strict=True))
        pages, items, removed = counts["pages"], counts["items"], counts["accounts_removed"]
        found.append(RunCounts(run_id, kind, RunState(state), started_at, pages, items, removed, _media(counts)))
    return tuple(found)


# The snapshot's table `runs`: a row for each run, and one for all runs that are no longer listed. Counts that an older
# version did not record are NULL. A run that landed nothing has no row of counts.
LISTED = f"""
SELECT r.* EXCLUDE (published_at),
    {", ".join(f"if(c.run_id IS NULL, 0, c.{name}) AS {name}" for name in NAMES)}
FROM core.runs AS r LEFT JOIN core.run_counts AS c USING (run_id)
UNION ALL BY NAME
SELECT
    'totals' AS run_id, 'totals' AS kind, 'totals' AS state, TIMESTAMPTZ '1970-01-01 00:00:00+00' AS started_at,
    'Counts of all runs no longer listed.' AS detail, '' AS version, {_SUMS}
FROM core.run_counts ANTI JOIN core.runs USING (run_id) HAVING count(*) > 0
"""  # noqa: S608


def forget(connection: Connection) -> None:
    """Combine the counts of all runs that are no longer listed into one row, in the open transaction."""
    for statement in (
        "CREATE OR REPLACE TEMP TABLE unlisted AS FROM core.run_counts ANTI JOIN core.runs USING (run_id)",
        "DELETE FROM core.run_counts WHERE run_id IN (SELECT run_id FROM unlisted)",
        f"INSERT INTO core.run_counts BY NAME SELECT '' AS run_id, {_SUMS} FROM unlisted HAVING count(*) > 0",  # noqa: S608
        "DROP TABLE temp.unlisted",
    ):
        connection.db.execute(statement)

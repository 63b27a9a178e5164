"""A copy of the last snapshot brought up to date: its rows are compared with the warehouse's, all of them.

No mark tells what changed since it was made: whatever a fold, a rebuild, a restored backup or a stranger did is seen,
for it is rows that are compared. Two different rows of one item pass for equal once in 2^64 comparisons.
"""

from collections.abc import Iterable, Sequence

from duckdb import DuckDBPyConnection

from connectors.warehouse.connection import value
from connectors.warehouse.contents import SnapshotColumn, SnapshotTable
from connectors.warehouse.draft import DRAFT, dress, fill, make_tables, name_of
from connectors.warehouse.quoting import quoted
from connectors.warehouse.snapshot_catalogue import catalogue, view_names
from models.views import views

_BLANK = "blank_snapshot"
_CHANGES = "temp.snapshot_changes"

# Of a table's rows: so many may lie where they were added and not in their order, or leave a hole where they were.
_ASTRAY = 0.25

# Smaller tables than this are as soon written as looked into.
_FEW = 50_000

# DuckDB hashes some different values of other types alike, such as no list and a list of nothing: their text tells.
_HASHED_APART = {"VARCHAR", "JSON", "BIGINT", "INTEGER", "BOOLEAN", "TIMESTAMP WITH TIME ZONE"}


class MustBeWhole(Exception):  # noqa: N818 - a reason, not a fault
    """Why the last snapshot is nothing to begin with."""


def _said(columns: Iterable[SnapshotColumn]) -> str:
    parts = ["0"]
    for column in columns:
        name = quoted(column.name)
        parts += [name] if column.type in _HASHED_APART else [name, f"{name}::VARCHAR"]
    return f"hash({', '.join(parts)})"


def _astray(db: DuckDBPyConnection, table: SnapshotTable) -> int:
    """Return how many rows lie behind those of a later account, by the thousand or so, and how many are no more."""
    query = f"""
WITH stretch AS (
    SELECT rowid // 2048 AS place, count(*) AS rows, min(account_id) AS first, max(account_id) AS last
    FROM {name_of(table)} GROUP BY place
),
seen AS (
    SELECT rows, first < max(last) OVER (ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS behind
    FROM stretch
)
SELECT
    coalesce(sum(rows) FILTER (behind), 0)::BIGINT
    + (SELECT coalesce(max(rowid) + 1, 0) - count(*) FROM {name_of(table)})
FROM seen
"""  # noqa: S608 - the table's own name, quoted
    return int(value(db, query))


def _rows(db: DuckDBPyConnection, source: str) -> int:
    return int(value(db, f"SELECT count(*) FROM {source}"))  # noqa: S608


def _write_anew(db: DuckDBPyConnection, table: SnapshotTable) -> None:
    db.execute(f"DELETE FROM {name_of(table)}")  # noqa: S608
    fill(db, table)


def _has_room(db: DuckDBPyConnection, table: SnapshotTable, coming: int, due: int) -> bool:
    """Say whether so many rows, of all that are `due`, may lie out of order; if not, a small table is written anew.

    Raises MustBeWhole when they may not and the table is none that is written anew in passing.
    """
    if coming + _astray(db, table) <= _ASTRAY * due:
        return True
    if table.moving is not None or due > _FEW:
        message = f"{coming:,} of the {due:,} rows of {table.name} are news, beside those that lie out of order."
        raise MustBeWhole(message)
    return False


def _changes_sql(table: SnapshotTable) -> str:
    """Return the query of what differs: rows by their place in the draft, or to come, by their key.

    A row that `stays` has another value in the table's moving column, and nothing else to tell.
    """
    content = _said(column for column in table.columns if column.name not in {*table.key, table.moving})
    key = ", ".join(map(quoted, table.key))
    same_key = " AND ".join(f"o.{quoted(name)} = n.{quoted(name)}" for name in table.key)
    moving = quoted(table.moving) if table.moving is not None else "NULL"
    names = ", ".join(f"CASE WHEN NOT stays THEN {quoted(name)} END AS {quoted(name)}" for name in table.key)
    return f"""
WITH o AS (SELECT rowid AS _place, {key}, {content} AS _said, {moving} AS _moving FROM {name_of(table)}),
n AS (SELECT {key}, {content} AS _said, {moving} AS _moving FROM ({table.select})),
both_sides AS (
    SELECT
        o._place, {", ".join(f"n.{quoted(name)}" for name in table.key)}, n._moving,
        coalesce(o._said = n._said, false) AS stays, o._moving IS DISTINCT FROM n._moving AS moves
    FROM o FULL JOIN n ON {same_key}
)
SELECT _place, stays, _moving, {names} FROM both_sides WHERE moves OR NOT stays
"""  # noqa: S608 - the snapshot's own names, quoted


def _renew_rows(db: DuckDBPyConnection, table: SnapshotTable, due: int) -> None:
    """Replace the rows that differ, and move the one column of those that differ in nothing else."""
    db.execute(f"CREATE OR REPLACE TEMP TABLE {_CHANGES.removeprefix('temp.')} AS {_changes_sql(table)}")
    try:
        coming = value(db, f"SELECT count(*) FROM {_CHANGES} WHERE NOT stays")  # noqa: S608
        if not _has_room(db, table, coming, due):
            _write_anew(db, table)
            return
        name, key = name_of(table), ", ".join(map(quoted, table.key))
        db.execute(f"DELETE FROM {name} WHERE rowid IN (SELECT _place FROM {_CHANGES} WHERE NOT stays)")  # noqa: S608
        if table.moving is not None:
            db.execute(
                f"UPDATE {name} AS t SET {quoted(table.moving)} = c._moving FROM {_CHANGES} AS c"  # noqa: S608
                " WHERE c.stays AND t.rowid = c._place"
            )
        news = f"(SELECT {key} FROM {_CHANGES} WHERE NOT stays)"  # noqa: S608
        rows = f"SELECT s.* FROM ({table.select}) AS s SEMI JOIN {news} AS c USING ({key})"  # noqa: S608
        db.execute(f"INSERT INTO {name} BY NAME {table.sorted(rows)}")
        if (there := _rows(db, name)) != due:
            message = f"{there:,} rows came to be in {table.name} where {due:,} belong."
            raise MustBeWhole(message)
    finally:
        db.execute(f"DROP TABLE {_CHANGES}")


def _add_later(db: DuckDBPyConnection, table: SnapshotTable, due: int) -> None:
    """Add the rows of later instants than the copy's, which must hold all the others and nothing else."""
    name, said, instant = name_of(table), _said(table.columns), quoted(str(table.grows_by))
    later = f"coalesce({instant} > (SELECT max({instant}) FROM {name}), true)"  # noqa: S608
    fingerprint = f"SELECT count(*), sum({said})"
    stored = db.execute(f"{fingerprint} FROM {name}").fetchall()
    known = db.execute(f"{fingerprint} FROM ({table.select}) WHERE NOT {later}").fetchall()
    if stored != known:
        if due > _FEW:
            message = f"What {table.name} held is no longer all there, or there is more of it."
            raise MustBeWhole(message)
        _write_anew(db, table)
        return
    news = f"SELECT * FROM ({table.select}) WHERE {later}"  # noqa: S608
    if _has_room(db, table, _rows(db, f"({news})"), due):
        db.execute(f"INSERT INTO {name} BY NAME {table.sorted(news)}")
    else:
        _write_anew(db, table)


def _see_that_it_is_alike(db: DuckDBPyConnection, tables: Sequence[SnapshotTable], version: str, modified: int) -> None:
    db.execute(f"ATTACH ':memory:' AS {_BLANK}")
    try:
        make_tables(db, _BLANK, tables)
        ours = {("main", view.name) for view in views()}
        alike = catalogue(db, DRAFT) == catalogue(db, _BLANK) and view_names(db, DRAFT) == ours
    finally:
        db.execute(f"DETACH {_BLANK}")
    if not alike:
        message = "Its tables, columns or views are not those of the last one."
        raise MustBeWhole(message)
    signed = db.execute(f"SELECT version, epoch_us(published_at) FROM {DRAFT}.main.published").fetchall()  # noqa: S608
    if [of for of, _ in signed] != [version]:
        message = "Another gramhouse made the last one."
        raise MustBeWhole(message)
    if signed[0][1] != modified:
        message = "The last one was altered since it was published."
        raise MustBeWhole(message)


def renew(db: DuckDBPyConnection, tables: Sequence[SnapshotTable], version: str, modified: int) -> None:
    """Bring the draft, which is a copy of the last snapshot, to what is folded now.

    `modified` is when that snapshot's file was last changed, in microseconds since 1970.

    Raises MustBeWhole when the draft is no such copy, or it is better written whole.
    """
    _see_that_it_is_alike(db, tables, version, modified)
    dress(db, tables)
    for table in tables:
        if table.select is None:
            continue
        if table.key:
            _renew_rows(db, table, _rows(db, f"({table.select})"))
        elif table.grows_by is not None:
            _add_later(db, table, _rows(db, f"({table.select})"))
        else:
            _write_anew(db, table)

"""The bronze archive: what a fold is about to clear, written to Parquet first, one file for each day and fold.

A folder `warehouse=<id>` holds each warehouse, so that many may share an archive, and one made anew does not run into
the pages of the one before it. Within it, `day=YYYY-MM-DD/pages-<fold>.parquet` holds one row for each landing. The
order of the archive is (fold, seq): `seq` alone would not do, since a warehouse counts on from what it still has.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import duckdb
from sqlalchemy import BOOLEAN, Column, Connection, MetaData, Table, delete, insert, select
from sqlalchemy.exc import DBAPIError

from connectors.warehouse.connection import duck, value
from connectors.warehouse.durable import sync
from connectors.warehouse.errors import WarehouseUnusable
from connectors.warehouse.quoting import literal
from models.tables import (
    WAREHOUSE,
    core_outcomes,
    core_run_counts,
    core_runs,
    core_warnings,
    ops_checkpoints,
    ops_holds,
    ops_mapping,
    ops_raw_parts,
    ops_segments,
    ops_service,
    ops_staging,
    ops_warehouse,
)
from models.tables.columns import text, whole

# What a fold does not make; every other table is made of pages alone.
NOT_FOLDED = frozenset(
    table.fullname
    for table in (
        core_runs,
        core_outcomes,
        core_warnings,
        ops_holds,
        ops_mapping,
        ops_raw_parts,
        ops_segments,
        ops_service,
        ops_warehouse,
    )
)

# Made when a warehouse is first opened for writing. A snapshot holds the id, too.
ops_archive = Table(
    "archive",
    MetaData(),
    text("warehouse_id", "The name by which the archive knows this warehouse.", nullable=False),
    whole("folds", "How many folds it holds."),
    whole("landings", "How many landings they hold."),
    whole("checkpoint_seq", "The last checkpoint that was there in the last fold; later ones are not archived yet."),
    Column("complete", BOOLEAN, comment="Whether it holds everything that was ever folded here.", nullable=False),
    schema="ops",
    comment="What the bronze archive holds of this warehouse: one row.",
)


@dataclass(frozen=True, slots=True)
class Archived:
    """What the archive holds of a warehouse; counts of folds and landings."""

    warehouse_id: str
    folds: int = 0
    landings: int = 0
    checkpoint_seq: int = 0
    complete: bool = True


def archived(connection: Connection) -> Archived | None:
    """Return what the archive holds of this warehouse; None when it was never archived."""
    present = "SELECT count(*) FROM duckdb_tables() WHERE database_name = current_database() AND NOT temporary"
    present += " AND schema_name = 'ops' AND table_name = 'archive'"
    if not value(duck(connection), present):
        return None
    row = connection.execute(select(ops_archive)).mappings().one_or_none()
    return None if row is None else Archived(**row)


def note(connection: Connection, state: Archived) -> None:
    """Write down, in the open transaction, what the archive holds."""
    if archived(connection) is None:
        connection.exec_driver_sql("DROP TABLE IF EXISTS ops.archive")
        ops_archive.create(connection, checkfirst=False)
    connection.execute(delete(ops_archive))
    connection.execute(insert(ops_archive).values(**asdict(state)))


def home_of(folder: Path, warehouse_id: str) -> Path:
    """Return the folder that holds a warehouse's days."""
    return folder / f"warehouse={warehouse_id}"


def files(folder: Path, warehouse_id: str) -> Mapping[int, list[Path]]:
    """Return a warehouse's files in the archive, by fold, in the order of the folds. Raises WarehouseUnusable."""
    found: dict[int, list[Path]] = {}
    try:
        for path in sorted(home_of(folder, warehouse_id).glob("day=*/pages-*.parquet")):
            found.setdefault(int(path.stem.removeprefix("pages-")), []).append(path)
    except (OSError, ValueError) as error:
        message = f"the archive {folder} cannot be read: {error}"
        raise WarehouseUnusable(message) from error
    return dict(sorted(found.items()))


def parquet(paths: Iterable[Path]) -> str:
    """Return the expression that reads files of the archive."""
    listed = ", ".join(literal(str(path)) for path in paths)
    return f"read_parquet([{listed}], hive_partitioning = false, union_by_name = true)"


def _row() -> str:
    # The two halves of a landing, side by side: what both say is said once, and a checkpoint alone says it, too.
    theirs = {column.name for column in ops_checkpoints.columns}
    pages = [
        f"coalesce(s.{c.name}, c.{c.name}) AS {c.name}" if c.name in theirs else f"s.{c.name}"
        for c in ops_staging.columns
    ]
    checkpoints = [f"c.{c.name} AS checkpoint_{c.name}" for c in ops_checkpoints.columns if c.name != "seq"]
    return ", ".join([*pages, *checkpoints])


def _landings(after: int) -> str:
    return f"""
FROM ops.staging AS s
FULL JOIN (SELECT * FROM ops.checkpoints WHERE seq > {after}) AS c ON c.seq = s.seq
"""  # noqa: S608 - made of our own names and numbers


_DAY = "strftime(coalesce(s.received_at, c.updated_at) AT TIME ZONE 'UTC', '%Y-%m-%d')"

# A walk whose pages are not all staged had some of them folded.
_PAGES_GONE = """
SELECT count(*) FROM ops.checkpoints AS c
WHERE c.pages > (SELECT count(*) FROM ops.staging AS s WHERE s.walk_id = c.walk_id AND s.seq <= c.seq)
"""


def enroll(connection: Connection, *, new_id: Callable[[], str]) -> None:
    """Give the warehouse, in the open transaction, its id, which the archive knows it by; it keeps the one it has.

    Committed before the first fold: one that is killed and done again writes under the same name.
    """
    if archived(connection) is not None:
        return
    kept = {ops_staging.fullname, ops_checkpoints.fullname, core_run_counts.fullname, *NOT_FOLDED}
    made = [table.fullname for table in WAREHOUSE.sorted_tables if table.fullname not in kept]
    anything = " OR ".join(f"EXISTS (FROM {name})" for name in made)
    folded = bool(connection.exec_driver_sql(f"SELECT ({anything}) OR ({_PAGES_GONE}) > 0").scalar())
    before = "SELECT coalesce((SELECT min(seq) - 1 FROM ops.staging), (SELECT max(seq) FROM ops.checkpoints), 0)"
    first = int(connection.exec_driver_sql(before).scalar_one()) if folded else 0
    note(connection, Archived(new_id(), checkpoint_seq=first, complete=not folded))


def _waiting(connection: Connection, after: int) -> int:
    return int(connection.exec_driver_sql(f"SELECT count(*) {_landings(after)}").scalar_one())


def keep(connection: Connection, folder: Path | None) -> None:
    """Archive all that the fold in the same open transaction is going to clear; without a folder, note that it is not.

    With a folder the warehouse must have been enrolled.

    The files are durable when this returns. Should the transaction not be committed after all, the next fold bears the
    same number, and its files take the place of these: nothing that is staged is ever lost before it is folded, so
    they hold the same landings and those that came since.

    Raises WarehouseUnusable when the archive cannot be written; what is staged then stays so. Raises ValueError for a
    warehouse that was not enrolled.
    """
    state = archived(connection)
    if state is None:
        if folder is not None:
            message = "the warehouse has no name in the archive"
            raise ValueError(message)
        return
    landings = _waiting(connection, state.checkpoint_seq)
    if not landings:
        return
    last = connection.exec_driver_sql("SELECT coalesce(max(seq), 0) FROM ops.checkpoints").scalar_one()
    if folder is None:
        state = replace(state, complete=False)
    else:
        try:
            _write(connection, folder, state)
        except (OSError, duckdb.Error, DBAPIError) as error:
            raise WarehouseUnusable(_told(folder, error)) from error
        state = replace(state, folds=state.folds + 1, landings=state.landings + landings)
    note(connection, replace(state, checkpoint_seq=int(last)))


def _told(folder: Path, error: Exception) -> str:
    said = error.orig if isinstance(error, DBAPIError) else error
    why = error.strerror if isinstance(error, OSError) else str(said).strip().splitlines()[0]
    return (
        f"cannot write the archive {folder}: {why}. What had landed is kept, and waits: mend the folder, or point"
        " GRAMHOUSE_ARCHIVE to another."
    )


def _write(connection: Connection, folder: Path, state: Archived) -> None:
    number = state.folds + 1
    landings = _landings(state.checkpoint_seq)
    _check_own(connection, folder, state, files(folder, state.warehouse_id).get(number))
    days = connection.exec_driver_sql(f"SELECT DISTINCT {_DAY} {landings} ORDER BY 1").scalars().all()
    for day in days:
        home = home_of(folder, state.warehouse_id) / f"day={day}"
        _make(home)
        path = home / f"pages-{number:09}.parquet"
        draft = path.with_name(f".{path.name}.next")
        rows = f"SELECT {number} AS fold, {_row()} {landings} WHERE {_DAY} = '{day}' ORDER BY seq"
        copy = f"COPY ({rows}) TO {literal(str(draft))} (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)"
        try:
            # COPY would follow a link.
            draft.unlink(missing_ok=True)
            connection.exec_driver_sql(copy)
            sync(draft)
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        sync(home)


def _check_own(connection: Connection, folder: Path, state: Archived, there: list[Path] | None) -> None:
    # Files of a fold that was never committed hold what is staged now. Anything else is another copy's history.
    if there is None:
        return
    strange = f"""
SELECT count(*) FROM {parquet(there)} AS a
WHERE NOT EXISTS (
    SELECT 1 FROM (SELECT {_row()} {_landings(state.checkpoint_seq)}) AS n
    WHERE n.seq = a.seq AND n.walk_id = a.walk_id AND n.page IS NOT DISTINCT FROM a.page
)
"""  # noqa: S608
    if connection.exec_driver_sql(strange).scalar():
        message = (
            f"the archive {folder} holds pages of this warehouse that the warehouse does not know: it is an older copy"
            " of it. Fix: point GRAMHOUSE_ARCHIVE to another folder."
        )
        raise WarehouseUnusable(message)


def _make(home: Path) -> None:
    missing = [folder for folder in (home, *home.parents) if not folder.exists()]
    home.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync(folder.parent)

"""Making the warehouse anew from the bronze archive: the same pages, in the same order, through the same fold."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
from sqlalchemy import Connection, Table
from sqlalchemy.exc import DBAPIError

from connectors.warehouse.archive import NOT_FOLDED, Archived, archived, files, note, parquet
from connectors.warehouse.connection import connect, duck
from connectors.warehouse.durable import discard, sync
from connectors.warehouse.errors import WarehouseUnusable
from connectors.warehouse.field_registry import read_mapping, write_mapping
from connectors.warehouse.fold import fold
from connectors.warehouse.holder import hold
from connectors.warehouse.quoting import literal
from connectors.warehouse.segments import recover
from models.mapping import Mapping as MediaMapping
from models.tables import WAREHOUSE, ops_checkpoints, ops_staging
from models.tables.columns import INSTANT

# As much page text (bytes) as is folded at once, and how many folds a checkpoint of the draft waits for: DuckDB keeps
# in memory what is not checkpointed.
_FOLD_BYTES = 16 * 1024 * 1024
_FOLDS_TO_CHECKPOINT = 16

_OLD = "gramhouse_before_rebuild"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild replayed: archived folds and landings; `complete` says whether that was all there had been."""

    folds: int
    landings: int
    complete: bool


@dataclass(frozen=True, slots=True)
class _Fold:
    """One archived fold: its files, how many landings, between which numbers, and bytes of page text, about."""

    files: tuple[Path, ...]
    landings: int
    first: int
    last: int
    size: int


def rebuild_from_archive(
    path: Path,
    folder: Path,
    *,
    since: str,
    pause: Callable[[float], None],
    mapping: MediaMapping | None = None,
    force: bool = False,
    fold_bytes: int = _FOLD_BYTES,
) -> Rebuilt:
    """Build the warehouse at `path` anew from the archive in `folder`, and put it in the old one's place.

    What is no product of pages (runs, outcomes, promises to wait) is copied from the old file, and so are pages not
    folded yet. Items are read by `mapping`, or as they were. An archive that does not hold all that was ever folded is
    refused; with `force` the new warehouse holds what the archive does. `fold_bytes` of pages, about, are folded at
    once.

    Raises WarehouseBusy, and WarehouseUnusable in every other case; the old file then stays as it was.
    """
    if not path.exists():
        message = f"There is no warehouse at {path}: the archive makes one anew only beside the old one."
        raise WarehouseUnusable(message)
    draft = path.with_name(f".{path.name}.rebuilt")
    with hold(path, "gramhouse rebuild", since=since, pause=pause):
        state = _settled(path, folder)
        folds = _folds(folder, state, force=force)
        try:
            discard(draft)
            with _one_line(f"{path} cannot be made anew"):
                _build(draft, path, state, folds, mapping, fold_bytes=fold_bytes, force=force)
                sync(draft)
                draft.replace(path)
                sync(path.parent)
        except BaseException:
            discard(draft)
            raise
    return Rebuilt(len(folds), sum(one.landings for one in folds), state.complete)


@contextmanager
def _one_line(what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, duckdb.Error, DBAPIError) as error:
        said = error.orig if isinstance(error, DBAPIError) else error
        why = error.strerror if isinstance(error, OSError) else str(said).strip().splitlines()[0]
        message = f"{what}: {why}. The warehouse stays as it was."
        raise WarehouseUnusable(message) from error


def _settled(path: Path, folder: Path) -> Archived:
    # A log beside the old file would be taken for the new one's.
    with connect(path) as connection:
        recover(connection, path)
        with connection.begin():
            state = archived(connection)
        duck(connection).execute("CHECKPOINT")
    if path.with_name(path.name + ".wal").exists():
        message = f"{path} has a log that cannot be written into it; it stays as it was."
        raise WarehouseUnusable(message)
    if state is None or not (state.folds or state.complete):
        message = f"Nothing of {path} is in the archive {folder}: it was never synced with GRAMHOUSE_ARCHIVE set."
        raise WarehouseUnusable(message)
    return state


def _folds(folder: Path, state: Archived, *, force: bool) -> list[_Fold]:
    # What lies beyond the last committed fold is still staged.
    there = {number: found for number, found in files(folder, state.warehouse_id).items() if number <= state.folds}
    with _one_line(f"the archive {folder} cannot be read"):
        folds = _described(there)
    if not force and (why := _lacking(folds, state)):
        message = (
            f"The archive {folder} does not hold all of this warehouse: {why}. With --force the warehouse is made of"
            " what is there, and the rest is lost."
        )
        raise WarehouseUnusable(message)
    return folds


def _lacking(folds: list[_Fold], state: Archived) -> str | None:
    held = sum(one.landings for one in folds)
    counted = f"of {state.landings:,} landings it holds {held:,}"
    if state.complete:
        return None if held == state.landings else counted
    # Trimming leaves the count as it was.
    if held < state.landings:
        return f"it was trimmed, {counted}"
    return "some pages were folded while GRAMHOUSE_ARCHIVE was not set"


_DESCRIBE = """
SELECT
    file_name,
    coalesce(sum(row_group_num_rows) FILTER (path_in_schema = 'seq'), 0),
    min(TRY_CAST(stats_min_value AS BIGINT)) FILTER (path_in_schema = 'seq'),
    max(TRY_CAST(stats_max_value AS BIGINT)) FILTER (path_in_schema = 'seq'),
    coalesce(sum(total_uncompressed_size) FILTER (path_in_schema = 'body'), 0)
FROM parquet_metadata(?) GROUP BY file_name
"""


def _described(there: Mapping[int, list[Path]]) -> list[_Fold]:
    if not there:
        return []
    with duckdb.connect() as db:
        names = [str(one) for found in there.values() for one in found]
        facts = {row[0]: row[1:] for row in db.execute(_DESCRIBE, [names]).fetchall()}
    folds = []
    for found in there.values():
        landings, first, last, size = zip(*(facts[str(one)] for one in found), strict=True)
        folds.append(_Fold(tuple(found), int(sum(landings)), min(first), max(last), int(sum(size))))
    return folds


def _chunks(folds: list[_Fold], fold_bytes: int) -> Iterator[tuple[Path, ...]]:
    """Put together folds that are small; a number that was given twice is never folded with itself."""
    chunk: list[_Fold] = []
    for one in folds:
        if chunk and (one.first <= chunk[-1].last or sum(x.size for x in chunk) + one.size > fold_bytes):
            yield tuple(path for x in chunk for path in x.files)
            chunk = []
        chunk.append(one)
    if chunk:
        yield tuple(path for x in chunk for path in x.files)


def _build(
    draft: Path,
    path: Path,
    state: Archived,
    folds: list[_Fold],
    mapping: MediaMapping | None,
    *,
    fold_bytes: int,
    force: bool,
) -> None:
    with connect(draft) as connection:
        db = duck(connection)
        db.execute(f"ATTACH {literal(str(path))} AS {_OLD} (READ_ONLY)")
        with connection.begin():
            for name in sorted(NOT_FOLDED):
                connection.exec_driver_sql(f"DELETE FROM {name}")  # noqa: S608
                connection.exec_driver_sql(f"INSERT INTO {name} BY NAME {_in_lower_case(name)}")
            as_it_was = mapping is None or mapping == read_mapping(connection)
            if mapping is not None:
                write_mapping(connection, mapping)
        for number, chunk in enumerate(_chunks(folds, fold_bytes), 1):
            with connection.begin():
                _refill(connection, chunk)
                fold(connection)
            if number % _FOLDS_TO_CHECKPOINT == 0:
                db.execute("CHECKPOINT")
        with connection.begin():
            if not force:
                _verify(connection, state, same_tables=as_it_was)
            _bring_along(connection, state)
            note(connection, replace(state, landings=sum(one.landings for one in folds), complete=True))
        db.execute(f"DETACH {_OLD}")
        db.execute("CHECKPOINT")


def _in_lower_case(name: str) -> str:
    """Return a query for the old file's rows of a table, with account ids as the merge stores new accounts."""
    ids = " REPLACE (lower(account_id) AS account_id)" if "account_id" in WAREHOUSE.tables[name].columns else ""
    return f"SELECT *{ids} FROM {_OLD}.{name}"  # noqa: S608 - our own names


def _refill(connection: Connection, chunk: tuple[Path, ...]) -> None:
    source = parquet(chunk)
    described = connection.exec_driver_sql(f"DESCRIBE SELECT * FROM {source}")  # noqa: S608
    present = {row[0] for row in described}
    for table, prefix, mark in ((ops_staging, "", "body"), (ops_checkpoints, "checkpoint_", "checkpoint_state")):
        columns = ", ".join(
            f"{_read(held, present)} AS {name}"
            for name, held in _held(table, prefix)
            if held in present or held in _UNSAID
        )
        connection.exec_driver_sql(
            f"INSERT INTO {table.fullname} BY NAME SELECT {columns} FROM {source} WHERE {mark} IS NOT NULL"  # noqa: S608
        )


# What archives of before a column was kept meant by saying nothing.
_UNSAID = {"checkpoint_lane": "sync"}


def _read(held: str, present: set[str]) -> str:
    if held.endswith("account_id"):
        return f"lower({held})"
    if held not in _UNSAID:
        return held
    meant = literal(_UNSAID[held])
    return f"coalesce({held}, {meant})" if held in present else meant


def _held(table: Table, prefix: str) -> list[tuple[str, str]]:
    return [(c.name, c.name if c.name == "seq" else prefix + c.name) for c in table.columns]


# Empty in what an older gramhouse wrote.
_NEWER = {
    "core.walks.seq",
    "ops.checkpoints.began_seq",
    "ops.checkpoints.repeated_pages",
    "ops.checkpoints.empty_pages",
}


def _verify(connection: Connection, state: Archived, *, same_tables: bool) -> None:
    """See that the archive told this warehouse's story: every partition stands where it stood."""
    for name, where in (("ops.checkpoints", f"WHERE seq <= {state.checkpoint_seq}"), ("core.walks", "")):
        # By name: in a file that was upgraded they lie in another order. Times may have been moved back since.
        found = WAREHOUSE.tables[name].columns
        columns = ", ".join(c.name for c in found if c.type is not INSTANT and f"{name}.{c.name}" not in _NEWER)
        old, new = f"(SELECT {columns} FROM ({_in_lower_case(name)}) {where})", f"(SELECT {columns} FROM {name})"  # noqa: S608
        differ = f"SELECT count(*) FROM (({old} EXCEPT {new}) UNION ALL ({new} EXCEPT {old}))"  # noqa: S608
        if connection.exec_driver_sql(differ).scalar():
            message = (
                "The archive does not tell this warehouse's story: its walks end elsewhere. The warehouse stays as it"
                " was; with --force it is made of what is there."
            )
            raise WarehouseUnusable(message)
    lost = connection.exec_driver_sql(_LOST).scalars().all()
    if lost and same_tables:
        message = f"The archive cannot make {', '.join(lost)} anew. The warehouse stays as it was."
        raise WarehouseUnusable(message)


# The old file's tables that the new one lacks, but for what the archive itself notes.
_LOST = f"""
SELECT o.schema_name || '.' || o.table_name
FROM duckdb_tables() AS o
WHERE o.database_name = '{_OLD}' AND o.schema_name IN ('core', 'ops')
  AND (o.schema_name, o.table_name) != ('ops', 'archive')
  AND NOT EXISTS (
    FROM duckdb_tables() AS n
    WHERE n.database_name = current_database() AND n.schema_name = o.schema_name AND n.table_name = o.table_name
  )
ORDER BY ALL
"""  # noqa: S608


def _bring_along(connection: Connection, state: Archived) -> None:
    for name, where in (("ops.staging", ""), ("ops.checkpoints", f"WHERE seq > {state.checkpoint_seq}")):
        connection.exec_driver_sql(f"INSERT INTO {name} BY NAME {_in_lower_case(name)} {where}")

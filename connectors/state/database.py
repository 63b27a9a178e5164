"""The state file: created or refused; and its transactions.

Readers never wait for the writer, nor it for them (SQLite's WAL). One process writes, the holder of the warehouse's
lock; only a start that failed adds its row without the lock.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, select
from sqlalchemy.exc import DBAPIError

from models.files import WarehouseUnusable
from models.tables import SCHEMA_NUMBER, STATE, identity

SqlConnection: TypeAlias = Connection
"""The type of a connection, for callers that import no SQLAlchemy."""

P = ParamSpec("P")
T = TypeVar("T")

# What is deleted is overwritten only where that costs no further writing: pages of bodies are not, so `erase` vacuums.
_PRAGMAS = ("page_size = 16384", "journal_mode = WAL", "synchronous = FULL", "secure_delete = FAST")

# The seconds that a transaction waits for the row of a failed start, which another process writes.
_WAIT = 10.0


def state_path(warehouse: Path) -> Path:
    """Return the path of a warehouse's state file."""
    return warehouse.with_name(f"{warehouse.name}.state.sqlite")


class State:
    """An open state file. Thread-safe; each call is one transaction.

    Every method raises WarehouseUnusable when the disk or SQLite fails; what was committed is kept.
    """

    def __init__(self, path: Path, engine: Engine) -> None:
        self.path = path
        self.engine = engine
        self._reading = engine.execution_options(reading=True)

    def write(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(connection, ...)` in a transaction that writes."""
        with explained(self.path), self.engine.begin() as connection:
            return work(connection, *args, **kwargs)

    def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(connection, ...)` in a transaction that only reads."""
        with self.reading() as connection:
            return work(connection, *args, **kwargs)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection for a transaction that only reads, so that a caller need not hold all rows in memory."""
        with explained(self.path), self._reading.begin() as connection:
            yield connection

    def erase(self) -> None:
        """Write the file again without what was deleted, and empty SQLite's log, which keeps it too."""
        with explained(self.path), self.engine.connect() as connection:
            driver = driver_of(connection)
            driver.execute("VACUUM")
            [(is_read, *_)] = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if is_read:
            what = "is being read, so its log still has what was erased"
            raise WarehouseUnusable(f"{self.path} {what}. Fix: run this again.")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise the errors of SQLite as WarehouseUnusable with one line."""
    try:
        yield
    except (DBAPIError, sqlite3.Error, OSError) as error:
        why = str(getattr(error, "orig", error)).splitlines()[0].rstrip(".")
        fix = (
            "check the path and the disk (landed pages are kept); if the file is damaged, restore a backup of all files"
        )
        raise WarehouseUnusable(f"{path} cannot be used: {why}. Fix: {fix}.") from error


def driver_of(connection: Connection) -> sqlite3.Connection:
    """Return the driver's connection, for what SQLAlchemy makes slow or cannot do; it is in the same transaction."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - for mypy
    return driver


def _connect(path: Path, *, mode: str) -> Engine:
    url = f"file:{quote(str(path))}?mode={mode}"

    def connect() -> sqlite3.Connection:
        # One thread at a time uses a connection, but not always the same one.
        connection = sqlite3.connect(url, uri=True, timeout=_WAIT, check_same_thread=False, isolation_level=None)
        for pragma in _PRAGMAS if mode != "ro" else ():
            connection.execute(f"PRAGMA {pragma}").fetchall()
        return connection

    engine = create_engine("sqlite://", creator=connect)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads first and writes then would fail if another one wrote in between.
        is_reading = connection.get_execution_options().get("reading")
        connection.exec_driver_sql("BEGIN" if is_reading else "BEGIN IMMEDIATE")

    return engine


@contextmanager
def open_state(path: Path) -> Iterator[State]:
    """Open the state file for writing; create it if necessary.

    The caller holds the warehouse's lock, or adds nothing but the row of a failed start. Raises WarehouseUnusable, also
    if the file is not a state file or is of a newer version; then it is unchanged.
    """
    state = State(path, _connect(path, mode="rwc"))
    try:
        with explained(path):
            path.touch(mode=0o600)
        state.write(_create_tables, path)
        yield state
    finally:
        state.engine.dispose()


@contextmanager
def open_state_read_only(path: Path) -> Iterator[State | None]:
    """Open the state file for reading, also while another process writes; None if there is none.

    Raises WarehouseUnusable.
    """
    if not path.exists():
        yield None
        return
    state = State(path, _connect(path, mode="ro"))
    try:
        yield state if state.read(_has_tables, path) else None
    finally:
        state.engine.dispose()


def _create_tables(connection: Connection, path: Path) -> None:
    if not _has_tables(connection, path):
        STATE.create_all(connection)
        first = {"schema_number": SCHEMA_NUMBER, "token": "", "last_seq": 0, "salt": token_hex(32)}
        connection.execute(insert(identity).values(first))


def _has_tables(connection: Connection, path: Path) -> bool:
    """Return whether the file has tables. Raises WarehouseUnusable for other files, and those of a newer version."""
    if not (tables := inspect(connection).get_table_names()):
        return False
    if "identity" not in tables:
        what = "it is not a state file of gramhouse"
        raise WarehouseUnusable(f"{path} cannot be used: {what}. Fix: move it away, or choose another warehouse.")
    if (number := connection.execute(select(identity.c.schema_number)).scalar_one()) > SCHEMA_NUMBER:
        what = f"a newer gramhouse wrote it (schema {number}; this one knows {SCHEMA_NUMBER})"
        raise WarehouseUnusable(f"{path} cannot be used: {what}. Fix: upgrade gramhouse.")
    return True

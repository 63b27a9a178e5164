"""Opens the two files that belong together, the state and the warehouse, under one lock."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from connectors.state.database import State, StateError, open_state, open_state_read_only, state_path
from connectors.state.identity import read_identity, write_token
from connectors.state.inbox import Inbox
from connectors.state.progress import forget_order
from connectors.state.runs import mark_interrupted, read_runs
from connectors.warehouse.maintenance.compact import remove_left_over
from connectors.warehouse.maintenance.opening import adopt_mapping
from connectors.warehouse.merge.landed import merge_landed
from connectors.warehouse.raw.recovery import hold_store, recover_parts
from connectors.warehouse.runs.copied import copy_runs
from connectors.warehouse.storage import connection as warehouse_file
from connectors.warehouse.storage.connection import Connection, connect, explained
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.holder import hold
from connectors.warehouse.storage.paths import real
from models.identity import NEW, Identity, find_mismatch
from models.mapping import BUILT_IN, Mapping


@dataclass(frozen=True, slots=True)
class Files:
    """The state and the warehouse, open for writing. `recovered_runs` had landed pages that opening merged."""

    state: State
    inbox: Inbox
    connection: Connection
    recovered_runs: tuple[str, ...]


@contextmanager
def explained_state() -> Iterator[None]:
    """Raise the errors of the state as WarehouseUnusable."""
    try:
        yield
    except StateError as error:
        raise WarehouseUnusable(str(error)) from error


@contextmanager
def open_existing_state(warehouse: Path) -> Iterator[State | None]:
    """Open the state for reading, also while another process writes; None if there is none."""
    with explained_state(), open_state_read_only(state_path(real(warehouse))) as state:
        yield state


@contextmanager
def lock_state(warehouse: Path, activity: str, *, now: datetime, pause: Callable[[float], None]) -> Iterator[State]:
    """Hold the warehouse's lock, and open the state for writing.

    Raises WarehouseBusy, which names the holder, and WarehouseUnusable, also if the state's warehouse is missing.
    """
    since = now.isoformat(timespec="seconds")
    with (
        hold(warehouse, activity, since=since, pause=pause),
        explained_state(),
        open_state(state_path(real(warehouse))) as state,
    ):
        if not warehouse.exists():
            check_pair(state.path, state.read(read_identity), warehouse, Identity(NEW, 0))
        yield state


def check_pair(state: Path, of_state: Identity, warehouse: Path, of_warehouse: Identity) -> None:
    """Raise WarehouseUnusable, with the fix, if the two files do not belong together."""
    if (wrong := find_mismatch(of_state, of_warehouse)) is not None:
        raise WarehouseUnusable(wrong.format(state=state, warehouse=warehouse))


@contextmanager
def open_pair(
    state: State,
    path: Path,
    activity: str,
    *,
    now: datetime,
    pause: Callable[[float], None],
    raw: Path | None = None,
    new_id: Callable[[], str] = lambda: uuid4().hex,
    mapping: Mapping = BUILT_IN,
) -> Iterator[Files]:
    """Open the warehouse of a state that is open and locked, finish what a killed process left, and merge its pages.

    `raw` is the folder of raw stores; default: `raw` next to the file. `new_id` generates the id of a new warehouse.
    Media are read with `mapping`, unless stored rows were read differently.

    Raises WarehouseBusy and WarehouseUnusable, also if the files do not belong together; then nothing is changed.
    """
    with explained_state(), connect(path, raw, new_id=new_id) as connection, explained(path):
        with connection.begin():
            before, theirs = state.read(read_identity), warehouse_file.read_identity(connection)
        check_pair(state.path, before, path, theirs)
        with hold_store(connection, activity, since=now.isoformat(timespec="seconds"), pause=pause):
            recover_parts(connection, now=now)
            remove_left_over(connection.path)
            # A kill in between leaves the state with the token that the warehouse knows as the one before.
            token = uuid4().hex
            with connection.begin():
                warehouse_file.write_token(connection, token, before=before.token)
            state.write(write_token, token)
            state.write(mark_interrupted)
            inbox = Inbox(state)
            inbox.delete(theirs.seq)
            with connection.begin():
                warehouse_file.write_token(connection, token, before=None)
                copy_runs(connection, state.read(read_runs))
                if adopt_mapping(connection, mapping):
                    state.write(forget_order)
            yield Files(state, inbox, connection, _merge_left_over(connection, inbox))


def _merge_left_over(connection: Connection, inbox: Inbox) -> tuple[str, ...]:
    """Merge what a killed process landed; return the ids of the runs that landed it."""
    pages = (landing.commit.page for landing in inbox.after(0))
    runs = tuple(dict.fromkeys(page.run_id for page in pages if page is not None))
    if last := inbox.last():
        merge_landed(connection, inbox.after, inbox.delete, last)
    return runs

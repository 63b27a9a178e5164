"""Opens the files that belong together, the state, the warehouse and the raw store, under one lock."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from connectors.state.database import State, open_state, open_state_read_only, state_path
from connectors.state.identity import end_operation, read_identity, read_operations, read_unmerged, write_token
from connectors.state.inbox import delete_landings, forget_order, last_landing, read_landings
from connectors.state.runs import mark_interrupted
from connectors.warehouse.maintenance.compact_file import remove_left_over, rewrite_file
from connectors.warehouse.storage import identity as of_warehouse
from connectors.warehouse.storage.connection import Database, explained, open_warehouse, release_memory, transaction
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.files import real
from connectors.warehouse.storage.holder import hold
from flows.config.settings import Settings
from flows.reporting.progress import notices
from models.checkpoint import cut_batch
from models.erasure import ACTIVITY, OPERATION, UNFINISHED
from models.files import NEW, Identity, find_mismatch
from models.item import CONTENT_RULE
from models.mapping import Mapping


@dataclass(frozen=True, slots=True)
class Files:
    """The state and the warehouse, open for writing, and the folder of its raw store.

    Items are read with `mapping`.
    """

    state: State
    db: Database
    path: Path
    raw: Path
    mapping: Mapping

    def merge(self, db: Database) -> None:
        """Merge what has landed, a batch at a time, with this connection.

        What lands meanwhile waits for the next merge. Raises duckdb.Error and OSError; earlier batches are merged then.
        """
        # Imported here, on the merging thread while pages arrive: pyarrow takes longer to import than a request, and
        # commands that merge nothing do not need it.
        from connectors.warehouse.merge.merge import merge_batch  # noqa: PLC0415

        last = self.state.read(last_landing)
        while (merged := of_warehouse.read_warehouse(db).merged_seq) < last:
            with self.state.reading() as connection:
                batch = cut_batch(read_landings(connection, merged, last))
            with transaction(db):
                merge_batch(db, batch, self.mapping, self.raw)
            self.state.write(delete_landings, batch[-1].seq)
            release_memory(db)


@contextmanager
def open_existing_state(warehouse: Path) -> Iterator[State | None]:
    """Open the state for reading, also while another process writes; None if there is none."""
    with open_state_read_only(state_path(real(warehouse))) as state:
        yield state


def check_pair(state: Path, of_state: Identity, warehouse: Path, of_warehouse: Identity) -> None:
    """Raise WarehouseUnusable, with the fix, if the two files do not belong together."""
    if (wrong := find_mismatch(of_state, of_warehouse)) is not None:
        raise WarehouseUnusable(wrong.format(state=state, warehouse=warehouse))


@contextmanager
def open_files(settings: Settings, activity: str, *, now: datetime, rewrites: bool = False) -> Iterator[Files]:
    """Lock and open the files for writing, finish what a killed process left, and merge its pages.

    Media are read with the mapping of the settings, unless stored rows were read differently. If the block `rewrites`
    the warehouse's file, it is written again, compactly, after the block and before the lock is released.

    Raises WarehouseBusy, which names the holder, and WarehouseUnusable, also if the files do not belong together; then
    nothing is changed.
    """
    path, since = settings.warehouse, now.isoformat(timespec="seconds")
    with hold(path, activity, since=since, pause=time.sleep), open_state(state_path(real(path))) as state:
        if not path.exists():
            check_pair(state.path, state.read(read_identity), path, Identity(NEW, 0))
        state.write(mark_interrupted)
        if activity != ACTIVITY and OPERATION in state.read(read_operations):
            notices.warning(UNFINISHED)
        with explained(path):
            remove_left_over(real(path))
        with open_warehouse(path) as db:
            yield _finish(state, db, settings)
        if rewrites:
            rewrite_file(path)


def _finish(state: State, db: Database, settings: Settings) -> Files:
    """Finish what a killed process left, and merge its pages."""
    # Imported here, because it imports pyarrow, and commands that only read the state import this module.
    from connectors.warehouse.raw.parts import find_unmerged_parts  # noqa: PLC0415

    before, theirs = state.read(read_identity), of_warehouse.read_warehouse(db)
    check_pair(state.path, before, settings.warehouse, theirs.identity)
    raw, unmerged = settings.raw_folder() / theirs.id, state.read(read_unmerged)
    for part in find_unmerged_parts(raw, merged_seq=theirs.merged_seq, raw_seq=theirs.raw_seq, inbox=unmerged):
        part.unlink()
    # A kill in between leaves the state with the token that the warehouse knows as the one before.
    token = uuid4().hex
    of_warehouse.write_token(db, token, before=before.token)
    state.write(write_token, token)
    of_warehouse.write_token(db, token, before=None)
    state.write(end_operation, "rebuild")
    state.write(delete_landings, theirs.merged_seq)
    mapping = settings.media_mapping()
    with transaction(db):
        if of_warehouse.adopt_mapping(db, mapping):
            state.write(forget_order)
        in_force = of_warehouse.read_warehouse(db).mapping or mapping
        if theirs.content_rule not in (None, CONTENT_RULE):
            # Imported here, because a release rarely has another rule.
            from connectors.warehouse.maintenance.rebuild import read_again  # noqa: PLC0415

            read_again(db, raw, in_force, force=True)
    files = Files(state, db, settings.warehouse, raw, in_force)
    files.merge(db)
    return files

"""The files of a warehouse whose process is killed: the next process continues with a copy from that moment."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from connectors.warehouse.storage import connection as connecting
from connectors.warehouse.storage.connection import Connection
from connectors.warehouse.storage.durable import write

Writer = Callable[..., AbstractContextManager[Connection]]

_real: Writer = connecting.writer


def torn_write(between: Callable[[], None]) -> Callable[[int, bytes], None]:
    """Return a write function that calls `between` when half of the data is written."""

    def write_halves(handle: int, data: bytes) -> None:
        half = len(data) // 2
        write(handle, data[:half])
        between()
        write(handle, data[half:])

    return write_halves


class Disk:
    """A folder for each process. The files of a killed process are copied without closing them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes = 0
        self.folder.mkdir(parents=True)

    @property
    def folder(self) -> Path:
        return self._folder / f"{self._processes}"

    @property
    def warehouse(self) -> Path:
        return self.folder / "rig.duckdb"

    @property
    def snapshot(self) -> Path:
        return self.folder / "analytics.duckdb"

    def copy_files(self) -> None:
        """Copy the current files, for the process after the one that is killed now."""
        before = self.folder
        self._processes += 1
        shutil.copytree(before, self.folder)

    @contextmanager
    def ended_life(self) -> Iterator[None]:
        """Remove the files of a process that was killed in the block, once it is closed."""
        before = self.folder
        try:
            yield
        finally:
            if before != self.folder:
                shutil.rmtree(before)

    @contextmanager
    def opened(self, look: Callable[[Connection], None]) -> Iterator[Writer]:
        """Replace the warehouse's writer by one that is always closed at the end of the block, even after a kill."""

        closing = ExitStack()

        @contextmanager
        def writer(path: Path, activity: str, **given: Any) -> Iterator[Connection]:  # noqa: ANN401 - the writer's own
            opened = closing.enter_context(_real(path, activity, **given))
            look(opened)
            try:
                yield opened
            finally:
                closing.close()

        with self.ended_life():
            try:
                yield writer
            finally:
                closing.close()

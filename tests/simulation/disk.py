"""The files of a warehouse whose process is killed again and again: what it holds at that instant is what it leaves."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from connectors.warehouse.storage import connection as connecting
from connectors.warehouse.storage.durable import write

Writer = Callable[..., AbstractContextManager[Connection]]

_real: Writer = connecting.writer


def torn_by(between: Callable[[], None]) -> Callable[[int, bytes], None]:
    """Return a way to write that does `between` in the midst of it."""

    def halting(handle: int, data: bytes) -> None:
        half = len(data) // 2
        write(handle, data[:half])
        between()
        write(handle, data[half:])

    return halting


class Disk:
    """A folder for each process. The files of a process that died are copied as they are, unclosed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lives = 0
        self.home.mkdir(parents=True)

    @property
    def home(self) -> Path:
        return self._folder / f"{self._lives}"

    @property
    def warehouse(self) -> Path:
        return self.home / "rig.duckdb"

    @property
    def snapshot(self) -> Path:
        return self.home / "analytics.duckdb"

    def salvage(self) -> None:
        """Keep the files as they are now: those of the process that dies here."""
        before = self.home
        self._lives += 1
        shutil.copytree(before, self.home)

    @contextmanager
    def opened(self, look: Callable[[Connection], None]) -> Iterator[Writer]:
        """Lend a warehouse's writer, which is closed with the block, whoever is dead by then."""

        closing = ExitStack()

        @contextmanager
        def writer(path: Path, activity: str, **given: Any) -> Iterator[Connection]:  # noqa: ANN401 - the writer's own
            opened = closing.enter_context(_real(path, activity, **given))
            look(opened)
            try:
                yield opened
            finally:
                closing.close()

        before = self.home
        try:
            yield writer
        finally:
            closing.close()
            if before != self.home:
                shutil.rmtree(before)

"""A warehouse under test whose folds are archived."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from sqlalchemy import Connection

from connectors.warehouse.archive import Archived, archived, enroll, keep
from connectors.warehouse.connection import connect
from connectors.warehouse.fold import fold
from connectors.warehouse.landing import last_seq
from connectors.warehouse.run_counts import FoldCounts
from models.landing import Landing
from tests.warehouse.house import POSTS, House, Walk, at


class ArchivedHouse(House):
    """A house whose folds are archived in `folder`, or in none."""

    _ids = count(1)

    def __init__(self, connection: Connection, folder: Path | None) -> None:
        super().__init__(connection)
        self.archive_in(folder)
        with connection.begin():
            self.seq = last_seq(connection)

    def archive_in(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            with self.connection.begin():
                enroll(self.connection, new_id=lambda: f"house-{next(self._ids)}")

    def fold(self) -> FoldCounts:
        with self.connection.begin():
            keep(self.connection, self.folder)
            return fold(self.connection)

    def fold_and_die(self, death: BaseException) -> None:
        """Archive and fold, and die before the commit."""
        with self.connection.begin():
            keep(self.connection, self.folder)
            fold(self.connection)
            raise death

    def state(self) -> Archived:
        with self.connection.begin():
            found = archived(self.connection)
        assert found
        return found


@contextmanager
def open_at(path: Path, folder: Path | None) -> Iterator[ArchivedHouse]:
    with connect(path) as connection:
        yield ArchivedHouse(connection, folder)


def walked(walk_id: str, hour: float, pages: int = 2, *, last: bool = True) -> list[Landing]:
    walk = Walk(POSTS, walk_id, at(hour))
    return [walk.page([{"id": str(n)}], at(hour + n / 60), last=last and n == pages - 1) for n in range(pages)]

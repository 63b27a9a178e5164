"""The folder of a warehouse's raw parts. A part never changes, and only a committed one has its final name."""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import xxhash

from connectors.warehouse.storage.durable import sync
from connectors.warehouse.storage.errors import WarehouseUnusable
from connectors.warehouse.storage.quoting import literal

# The columns of a part, in order, each with its type and description.
COLUMNS = {
    "account_id": ("VARCHAR", "The account's id, as in media."),
    "surface": ("VARCHAR", "The feed, such as posts or stories."),
    "media_id": ("VARCHAR", "The item's id, as in media."),
    "seen_at": ("TIMESTAMPTZ", "When the page that brought it was received."),
    "run_id": ("VARCHAR", "The run that received it."),
    "correlation_id": ("VARCHAR", "X-Correlation-ID of the response."),
    "landed": ("BIGINT", "Its landing number: no two rows have the same, and what came later has a higher one."),
    "payload": ("VARCHAR", "The item's JSON text, byte for byte as it came."),
}

# The bytes of a file that are read at once.
_PIECE = 1024 * 1024

_NAME = re.compile(r"part-(\d{7,})\.parquet", re.ASCII)


def part_name(number: int) -> str:
    """Return the name of a part's file."""
    return f"part-{number:07}.parquet"


def parquet(paths: Iterable[Path]) -> str:
    """Return the SQL expression that reads these parts; without paths it has no rows."""
    listed = ", ".join(literal(str(path)) for path in paths)
    if listed:
        return f"read_parquet([{listed}], hive_partitioning = false)"
    empty = ", ".join(f"NULL::{kind} AS {name}" for name, (kind, _) in COLUMNS.items())
    return f"(SELECT {empty} LIMIT 0)"


def checksum_of(file: Path) -> str:
    """Return the checksum of a file. Raises OSError."""
    digest = xxhash.xxh3_128()
    with file.open("rb") as opened:
        while piece := opened.read(_PIECE):
            digest.update(piece)
    return str(digest.hexdigest())


def check_part(path: Path, size: int, checksum: str, *, copy: Path | None = None) -> None:
    """Raise WarehouseUnusable if a part, or its copy, is not the file that was written, or cannot be read.

    `size` is in bytes.
    """
    file = copy or path
    try:
        found = file.stat().st_size
        if found != size:
            why = f"it has {found:,} bytes and should have {size:,}"
        elif checksum_of(file) != checksum:
            why = "its contents have changed since it was written"
        else:
            return
    except OSError as error:
        why = str(error.strerror)
    raise WarehouseUnusable(f"{path} of the raw store cannot be used: {why}. Fix: restore the file from a backup.")


@dataclass(frozen=True, slots=True)
class RawStore:
    """Parts in a folder, by number. Every method raises OSError when the folder cannot be used."""

    folder: Path

    def path(self, number: int) -> Path:
        """Return the path of a part, whether or not it exists."""
        return self.folder / part_name(number)

    def draft(self, number: int, token: str) -> Path:
        """Return the path of a part that a process has written, until it is committed."""
        return self.folder / f".{part_name(number)}.{token}"

    @contextmanager
    def writing(self, draft: Path) -> Iterator[None]:
        """Make the draft that the block writes durable. The folder is created, and a leftover draft is removed.

        If the block raises, there is no draft.
        """
        _make(self.folder)
        try:
            # A leftover file, which might be a symbolic link.
            draft.unlink(missing_ok=True)
            yield
            sync(draft)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        sync(self.folder)

    def keep(self, draft: Path, number: int) -> None:
        """Give a committed draft the name of its part, durably. Raises FileExistsError if there is such a part."""
        path = self.path(number)
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        draft.rename(path)
        sync(self.folder)

    def sizes(self) -> Mapping[int, int]:
        """Return the size in bytes of each part in the folder; files with other names are ignored."""
        if not self.folder.is_dir():
            return {}
        found = ((_NAME.fullmatch(path.name), path) for path in self.folder.iterdir())
        return {int(match[1]): path.stat().st_size for match, path in found if match}

    def remove(self, number: int) -> None:
        """Remove a part durably, if it exists."""
        if self.folder.is_dir():
            self.path(number).unlink(missing_ok=True)
            sync(self.folder)

    def remove_drafts(self, token: str) -> None:
        """Remove the drafts of a process."""
        if self.folder.is_dir():
            for draft in self.folder.glob(f".part-*.parquet.{token}"):
                draft.unlink()


def _make(folder: Path) -> None:
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync(each.parent)

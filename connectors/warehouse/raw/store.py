"""The folder of a warehouse's raw parts: files are written atomically and durably, and never change."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from connectors.warehouse.storage.durable import sync
from connectors.warehouse.storage.quoting import literal

# The columns of a part, in order, each with its type and description.
COLUMNS = {
    "account_id": ("VARCHAR", "The account's id, as in media."),
    "surface": ("VARCHAR", "posts or stories."),
    "media_id": ("VARCHAR", "The item's id, as in media."),
    "seen_at": ("TIMESTAMPTZ", "When the page that brought it was received."),
    "run_id": ("VARCHAR", "The run that received it; NULL before 0.2."),
    "correlation_id": ("VARCHAR", "X-Correlation-ID of the response; NULL before 0.2."),
    "landed": ("BIGINT", "Its landing number: no two rows have the same, and what came later has a higher one."),
    "payload": ("VARCHAR", "The item's JSON text, byte for byte as it came."),
}

_NAME = re.compile(r"part-(\d{7,})\.parquet", re.ASCII)
_DRAFT = re.compile(r"\.part-\d{7,}\.parquet\.next", re.ASCII)


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


@dataclass(frozen=True, slots=True)
class RawStore:
    """Parts in a folder, by number. Every method raises OSError when the folder cannot be used."""

    folder: Path

    def path(self, number: int) -> Path:
        """Return the path of a part, whether or not it exists."""
        return self.folder / part_name(number)

    def put(self, number: int, write: Callable[[Path], object]) -> int:
        """Call `write` with the path of a temporary file, and rename the file to this part; return its size in bytes.

        The file is fsynced before the rename, and the folder after it, so that a part is always complete, and durable
        when this returns. An existing part is replaced. Raises whatever `write` raises; then no part is changed.
        """
        _make(self.folder)
        path = self.path(number)
        draft = path.with_name(f".{path.name}.next")
        try:
            # A leftover file, which might be a symbolic link.
            draft.unlink(missing_ok=True)
            write(draft)
            sync(draft)
            size = draft.stat().st_size
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        sync(self.folder)
        return size

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

    def remove_drafts(self) -> None:
        """Remove temporary files that a killed `put` left."""
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                if _DRAFT.fullmatch(path.name):
                    path.unlink()


def _make(folder: Path) -> None:
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync(each.parent)

"""The folder of an export: written next to the old one, which it replaces atomically."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from connectors.warehouse.storage.durable import sync
from connectors.warehouse.storage.errors import WarehouseBusy, WarehouseUnusable

MANIFEST = "manifest.json"
FORMAT = "gramhouse export"


@dataclass(frozen=True, slots=True)
class Draft:
    """Where the next export is written: `files` becomes the folder, `spill` holds what memory does not."""

    files: Path
    spill: Path


def _listed(folder: Path) -> set[str] | None:
    """Return the files of the export in a folder, as its manifest lists them; None where there is no export."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        if manifest["format"] != FORMAT:
            return None
        return {MANIFEST} | {str(file["path"]) for table in manifest["tables"] for file in table["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _stranger(folder: Path, listed: set[str]) -> str | None:
    """Return the path of something in an export's folder that the export did not put there."""
    folders = {str(parent) for path in listed for parent in Path(path).parents}
    for folder_path, inner, names in os.walk(folder):
        here = Path(folder_path).relative_to(folder)
        found = [
            str(here / name) for name in inner if str(here / name) not in folders or (folder / here / name).is_symlink()
        ]
        found += [str(here / name) for name in names if str(here / name) not in listed]
        if found:
            return min(found)
    return None


def _refusal(folder: Path) -> str | None:
    """Say why a folder must not be replaced; None when it may."""
    if not os.path.lexists(folder):
        above = next(parent for parent in folder.parents if os.path.lexists(parent))
        return None if above.is_dir() else f"{above} is a file. Fix: choose a folder."
    if not folder.is_dir():
        return "it is a file. Fix: choose a folder."
    if folder.is_mount():
        return "a mounted folder cannot be replaced. Fix: choose a folder inside it."
    if not any(folder.iterdir()):
        return None
    listed = _listed(folder)
    if listed is None:
        return "folder is not empty and is not a gramhouse export. Fix: choose another folder."
    stranger = _stranger(folder, listed)
    return (
        stranger
        and f"it contains {stranger}, which is not part of an export. Fix: move it away or choose another folder."
    )


def _check(folder: Path) -> None:
    if refusal := _refusal(folder):
        message = f"cannot export to {folder}: {refusal}"
        raise WarehouseUnusable(message)


@contextmanager
def _held(workshop: Path, folder: Path) -> Iterator[None]:
    """Make the hidden folder and hold it against another export; a killed one leaves nothing held."""
    workshop.mkdir(exist_ok=True)
    handle = os.open(workshop, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The other export may have ended, and removed its folder, between our two calls.
            ours = workshop.exists() and workshop.stat().st_ino == os.fstat(handle).st_ino
        except BlockingIOError:
            ours = False
        if not ours:
            message = f"Another export is writing to {folder}. Fix: wait until it has finished."
            raise WarehouseBusy(message)
        yield
    finally:
        os.close(handle)


def _swap(draft: Path, folder: Path, before: Path) -> None:
    if folder.exists():
        folder.rename(before)
    try:
        draft.rename(folder)
    except BaseException:
        if before.exists():
            before.rename(folder)
        raise
    sync(folder.parent)


@contextmanager
def replaced(folder: Path) -> Iterator[Draft]:
    """Give a draft to write to, and put it in the folder's place when the block ends well.

    Whatever happens in the block, the old export stays as it was and nothing else is left. Raises
    WarehouseUnusable when the folder holds what is no export or cannot be written, WarehouseBusy when
    another export is writing there.
    """
    # Of a link, it is the folder behind it that is replaced.
    target = folder.resolve()
    workshop = target.with_name(f".{target.name}.exporting") if target.name else target
    draft, spill, before = (workshop / name for name in ("files", "spill", "before"))
    try:
        _check(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        with _held(workshop, target):
            # An export that was killed between its two renames left the old one here.
            if before.exists() and not target.exists():
                before.rename(target)
            try:
                for path in (draft, spill, before):
                    shutil.rmtree(path, ignore_errors=True)
                draft.mkdir()
                spill.mkdir()
                yield Draft(draft, spill)
                _check(target)
                _swap(draft, target, before)
            finally:
                for path in (draft, spill, before):
                    shutil.rmtree(path, ignore_errors=True)
                with suppress(OSError):
                    workshop.rmdir()
    except OSError as error:
        message = f"cannot export to {folder}: {error.strerror or error}. The previous export is unchanged."
        raise WarehouseUnusable(message) from error

"""The folder of an export: written next to the old one, which it replaces atomically."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from connectors.warehouse.storage.durable import sync
from connectors.warehouse.storage.errors import WarehouseBusy, WarehouseUnusable
from connectors.warehouse.storage.paths import real

MANIFEST = "manifest.json"
FORMAT = "gramhouse export"


def _listed(folder: Path) -> set[Path] | None:
    """Return the files of the export in a folder, as listed in its manifest; None if there is no export."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        if manifest["format"] != FORMAT:
            return None
        return {folder / MANIFEST, *(folder / file["path"] for table in manifest["tables"] for file in table["files"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _refusal(folder: Path) -> str | None:
    """Return why a folder must not be replaced; None if it may be."""
    if not os.path.lexists(folder):
        above = next(parent for parent in folder.parents if os.path.lexists(parent))
        return None if above.is_dir() else f"{above} is a file. Fix: choose a folder."
    if not folder.is_dir():
        return "it is a file. Fix: choose a folder."
    if folder.is_mount():
        return "a mounted folder cannot be replaced. Fix: choose a folder inside it."
    if not any(folder.iterdir()):
        return None
    if (listed := _listed(folder)) is None:
        return "folder is not empty and is not a gramhouse export. Fix: choose another folder."
    known = listed.union(*(file.parents for file in listed))
    others = [path for path in folder.rglob("*") if path not in known or path.is_symlink()]
    if not others:
        return None
    stranger = min(others).relative_to(folder)
    return f"it contains {stranger}, which is not part of an export. Fix: move it away or choose another folder."


def _check(folder: Path) -> None:
    if refusal := _refusal(folder):
        raise WarehouseUnusable(f"cannot export to {folder}: {refusal}")


@contextmanager
def _held(workshop: Path, folder: Path) -> Iterator[None]:
    """Create and lock the temporary folder, to exclude concurrent exports. A killed process leaves no lock."""
    workshop.mkdir(exist_ok=True)
    handle = os.open(workshop, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another export may have ended and removed the folder between the two calls.
            ours = workshop.exists() and workshop.stat().st_ino == os.fstat(handle).st_ino
        except BlockingIOError:
            ours = False
        if not ours:
            raise WarehouseBusy(f"Another export is writing to {folder}. Fix: wait until it has finished.")
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
def replaced(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yield a folder to write to, which replaces `folder` if the block succeeds, and one for DuckDB's temporary files.

    If the block fails, the old export is unchanged and no other file is left. Raises WarehouseUnusable when the folder
    cannot be written or contains other files than an export, WarehouseBusy when another export is writing to it.
    """
    # If the folder is a symbolic link, its target is replaced.
    target = real(folder)
    workshop = target.with_name(f".{target.name}.exporting") if target.name else target
    draft, spill, before = paths = [workshop / name for name in ("files", "spill", "before")]
    try:
        _check(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        with _held(workshop, target):
            # An export that was killed between its two renames left the old export here.
            if before.exists() and not target.exists():
                before.rename(target)
            try:
                for path in paths:
                    shutil.rmtree(path, ignore_errors=True)
                draft.mkdir()
                spill.mkdir()
                yield draft, spill
                _check(target)
                _swap(draft, target, before)
            finally:
                for path in paths:
                    shutil.rmtree(path, ignore_errors=True)
                with suppress(OSError):
                    workshop.rmdir()
    except OSError as error:
        raise WarehouseUnusable(
            f"cannot export to {folder}: {error.strerror or error}. The previous export is unchanged."
        ) from error

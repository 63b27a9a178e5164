"""Initial warehouses, which take long to create: created once, saved in a folder, and copied before use."""

import json
import os
import shutil
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from benchmarks.api.server_process import ROOT, start_server
from benchmarks.api.synthetic_api import Style
from benchmarks.candidates.jobs import RunFolder, measure_sync
from benchmarks.measuring.results import log
from benchmarks.measuring.samples import Sample

# Written last: a folder without this file is incomplete.
_COMPLETE = "complete.json"


def code_digest() -> str:
    """Return a digest of gramhouse's source code."""
    files = [file for package in ("connectors", "flows", "models") for file in (ROOT / package).rglob("*")]
    digest = sha256()
    for file in sorted(file for file in files if file.suffix in {".py", ".sql"}):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def saved_folder(folder: Path, accounts: int, posts: int, style: Style = Style.COMPACT) -> RunFolder:
    """Return where the warehouse of a first sync of this size is saved."""
    return RunFolder(folder / "-".join([f"{accounts}x{posts}", *([style] if style is not Style.COMPACT else [])]))


def save(run_folder: RunFolder, target: RunFolder, sample: Sample) -> None:
    """Move the warehouse of a first sync to the target, unless one is saved there."""
    if (target.path / _COMPLETE).exists():
        return
    shutil.rmtree(target.path, ignore_errors=True)
    run_folder.path.replace(target.path)
    (target.path / _COMPLETE).write_text(json.dumps({**asdict(sample), "code": code_digest()}), encoding="utf-8")


def load_or_create(folder: Path, accounts: int, posts: int, style: Style = Style.COMPACT) -> RunFolder:
    """Return the saved warehouse of a first sync; create it if there is none."""
    target = saved_folder(folder, accounts, posts, style)
    if not (target.path / _COMPLETE).exists():
        draft = RunFolder(target.path.with_suffix(".draft"))
        shutil.rmtree(draft.path, ignore_errors=True)
        log(f"creating a warehouse of {accounts:,} accounts x {posts:,} posts")
        with start_server(accounts, posts, style=style) as server:
            sample = measure_sync(server, draft.path, 16, items=accounts + accounts * posts)
        save(draft, target, sample)
    elif json.loads((target.path / _COMPLETE).read_text(encoding="utf-8")).get("code") != code_digest():
        log(f"{target.path} was created by another version of gramhouse: remove it to create it again")
    return target


def copy_to(source: RunFolder, folder: Path) -> RunFolder:
    """Copy a warehouse, its state, its raw store and its snapshot into a folder."""
    copy = RunFolder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in ("", ".state.sqlite"):
        shutil.copyfile(f"{source.warehouse}{suffix}", f"{copy.warehouse}{suffix}")
    shutil.copyfile(source.snapshot, copy.snapshot)
    shutil.copytree(source.raw, copy.raw)
    # Otherwise the pending writes would slow down the first candidate.
    os.sync()
    return copy

"""Warehouses that are dear to make: made once, kept in a folder, and copied before they are changed."""

import json
import os
import shutil
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from benchmarks.beside import ROOT, serving
from benchmarks.contenders import Home, carry_out, gramhouse
from benchmarks.pages import Style
from benchmarks.results import show
from benchmarks.samples import Sample

# Written last: what is without it was cut short.
_WHOLE = "whole.json"


def code() -> str:
    """Return a digest of gramhouse's code."""
    files = [file for room in ("connectors", "flows", "models") for file in (ROOT / room).rglob("*")]
    digest = sha256()
    for file in sorted(file for file in files if file.suffix in {".py", ".sql"}):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def home_of(folder: Path, accounts: int, posts: int, style: Style = Style.COMPACT) -> Home:
    """Return where the warehouse that the first sync of this size makes is kept."""
    return Home(folder / "-".join([f"{accounts}x{posts}", *([style] if style is not Style.COMPACT else [])]))


def keep(home: Home, target: Home, sample: Sample) -> None:
    """Move a warehouse of the first sync to where it is kept, unless there is one."""
    if (target.folder / _WHOLE).exists():
        return
    shutil.rmtree(target.folder, ignore_errors=True)
    home.folder.replace(target.folder)
    (target.folder / _WHOLE).write_text(json.dumps({**asdict(sample), "code": code()}), encoding="utf-8")


def prepared(folder: Path, accounts: int, posts: int, style: Style = Style.COMPACT) -> Home:
    """Return a warehouse as the first sync left it, made now if none is kept."""
    target = home_of(folder, accounts, posts, style)
    if not (target.folder / _WHOLE).exists():
        draft = Home(target.folder.with_suffix(".draft"))
        shutil.rmtree(draft.folder, ignore_errors=True)
        show(f"making a warehouse of {accounts:,} accounts x {posts:,} posts")
        with serving(accounts, posts, style=style) as server:
            sample = carry_out(gramhouse(server.url, draft, 16), server, items=accounts + accounts * posts)
        keep(draft, target, sample)
    elif json.loads((target.folder / _WHOLE).read_text(encoding="utf-8")).get("code") != code():
        show(f"{target.folder} was made by another gramhouse: remove it to have it made anew")
    return target


def copied(home: Home, folder: Path) -> Home:
    """Copy a warehouse, its raw store and its snapshot into a folder."""
    copy = Home(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(home.warehouse, copy.warehouse)
    shutil.copyfile(home.snapshot, copy.snapshot)
    shutil.copytree(home.raw, copy.raw)
    # What is still on its way to the disk would be in the way of the first who is measured.
    os.sync()
    return copy

"""Validates paths of our files: local, and not interpreted by DuckDB as anything else."""

import re
from pathlib import Path

# Path makes s3:/ of s3://; of other words before a colon DuckDB makes an extension, which it downloads.
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9_+.-]+:|:")

SCHEMAS = frozenset({"core", "ops"})

# What a file without its ending may not be called: DuckDB calls the database so, and each of these is something else.
_TAKEN = SCHEMAS | {
    "information_schema",
    "pg_catalog",
    "next_snapshot",
    "published_snapshot",
    "old_warehouse",
    "new_warehouse",
    "gramhouse_before_rebuild",
}

# DuckDB calls such a database otherwise by itself, but only when the name is in small letters.
_RENAMED = {"main", "system", "temp"}


def local(path: Path) -> Path:
    """Return a path on this machine, with a home folder's `~` replaced; ValueError for any other."""
    if not path.name or "\0" in str(path):
        message = "it is not a file name"
        raise ValueError(message)
    if _ELSEWHERE.match(str(path)):
        message = "it is not a local path; only local files and folders are supported"
        raise ValueError(message)
    return path.expanduser()


def database(path: Path) -> Path:
    """Return the path of a DuckDB file as `local` does; ValueError also for one that DuckDB would misread."""
    found = local(path)
    if "?" in str(found.absolute()):
        message = "paths with a question mark are not supported by DuckDB; choose another path"
        raise ValueError(message)
    name = found.name.split(".")[0]
    if name.lower() in _TAKEN or (name.lower() in _RENAMED and name != name.lower()):
        message = f"the name {name} is reserved in DuckDB; choose another file name"
        raise ValueError(message)
    return found

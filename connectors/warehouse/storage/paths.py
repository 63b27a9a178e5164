"""Validates paths: they must be local, and DuckDB must not interpret them as anything else."""

import os
import re
from pathlib import Path

# `Path` turns s3:// into s3:/. DuckDB interprets other words before a colon as extensions, and downloads them.
_ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9_+.-]+:|:")

# Invalid file names (without suffix): DuckDB names the database after its file, and these names have another meaning.
_TAKEN = {
    "core",
    "information_schema",
    "pg_catalog",
    "next_snapshot",
    "published_snapshot",
    "old_warehouse",
    "new_warehouse",
}


def local(path: Path) -> Path:
    """Return a local path with `~` expanded. Raises ValueError if the path is not local."""
    if not path.name or "\0" in str(path):
        raise ValueError("it is not a file name")
    if _ELSEWHERE.match(str(path)):
        raise ValueError("it is not a local path; choose a file or folder of this machine")
    try:
        str(path).encode()
        return path.expanduser()
    except UnicodeEncodeError:
        message = "it is not UTF-8; choose another name"
    except RuntimeError:
        message = f"the home directory {path.parts[0]} does not exist; write the whole path"
    raise ValueError(message)


def database(path: Path) -> Path:
    """Return the path of a DuckDB file as `local` does. Raises ValueError also if DuckDB would misinterpret it."""
    found = local(path)
    if "?" in str(found.absolute()):
        raise ValueError("paths with a question mark are not supported by DuckDB; choose another path")
    name = found.name.split(".")[0]
    if name.lower() in _TAKEN:
        raise ValueError(f"the name {name} is reserved in DuckDB; choose another file name")
    return found


def real(path: Path) -> Path:
    """Return the path of the file itself, if `path` is a symbolic link, also of one that does not exist yet."""
    # `Path.resolve` raises RuntimeError for a link to itself before Python 3.13.
    return Path(os.path.realpath(path))

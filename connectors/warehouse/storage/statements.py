"""Loads SQL statements from files: a module's long constant statements are in the .sql file with its name."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


@cache
def statements(module: str) -> Mapping[str, str]:
    """Return the statements of a module's .sql file by name; each begins with a line `-- name: x`."""
    package, _, name = module.rpartition(".")
    _, *found = _NAME.split(files(package).joinpath(f"{name}.sql").read_text(encoding="utf-8"))
    return dict(zip(found[::2], map(str.strip, found[1::2]), strict=True))

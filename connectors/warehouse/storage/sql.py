"""SQL as text: quoted names and texts, and statements in files."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def literal(text: str) -> str:
    """Return the text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def quoted(*names: str) -> str:
    """Return the names as a quoted SQL identifier, separated by dots."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


@cache
def statements(module: str) -> Mapping[str, str]:
    """Return the statements in the .sql file beside a module by name; each begins with a line `-- name: x`."""
    package, _, name = module.rpartition(".")
    _, *found = _NAME.split(files(package).joinpath(f"{name}.sql").read_text(encoding="utf-8"))
    return dict(zip(found[::2], map(str.strip, found[1::2]), strict=True))

"""Where settings come from: variables and gramhouse.toml, and which setting a mistyped name may mean."""

import difflib
import os
import re
import string
import tomllib
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

PREFIX = "GRAMHOUSE_"
CONFIG = Path("gramhouse.toml")

# What copying, an editor or `echo` leaves around a value.
AROUND = f"{string.whitespace}\u00a0\u200b\ufeff"

# The most names that a message lists.
_LISTED = 20

# Kubernetes sets such variables in each pod for every service of its namespace, including one named gramhouse.
_SERVICE_LINK = re.compile(r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://")


def read_variables() -> dict[str, tuple[str, str]]:
    """Return the variables with the prefix that are not blank: by setting, the name as spelled, and the value."""
    return {
        spelled.upper().removeprefix(PREFIX).lower(): (spelled, text)
        for spelled, value in os.environ.items()
        if spelled.upper().startswith(PREFIX) and (text := value.strip(AROUND))
    }


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, with or without a byte order mark. Raises OSError and UnicodeDecodeError."""
    return path.read_text(encoding="utf-8-sig")


def origin(*path: str | int) -> str:
    """Return the variable, or the file and line, that set the value at `path`: a setting, and keys inside it if any."""
    setting, *keys = map(str, path)
    if setting in (found := read_variables()):
        return ".".join([found[setting][0], *keys])
    lines: list[str] = []
    with suppress(OSError, UnicodeDecodeError):
        lines = read_text(CONFIG).splitlines()
    named = ".".join([setting, *keys])
    for key in reversed([part for part in path if isinstance(part, str)]):
        for number, line in enumerate(lines, 1):
            if re.match(rf"\s*\[?([\w.]+\.)?{re.escape(key)}\b", line):
                return f"{CONFIG}, line {number}: {named}"
    return (PREFIX + named).upper()


def no_such(name: str, known: Collection[str], prefix: str = "") -> str:
    """Return why a name is rejected, with the setting that it most likely means; shown with `prefix`."""
    if near := difflib.get_close_matches(name, known, n=1):
        return f"unknown setting; did you mean {prefix}{near[0]}?"
    right = f"use one of {', '.join(known)}" if len(known) <= _LISTED else "see `gramhouse config` for the names"
    return f"unknown setting. Fix: remove it, or {right}."


def refuse_variables(known: Collection[str]) -> list[str]:
    """Return a message for each variable with the prefix that is not a setting, or not text in UTF-8."""
    names, wrong = [name.upper() for name in known], []
    for name, (spelled, value) in sorted((name.upper(), found) for name, found in read_variables().items()):
        if name in names:
            if value != value.encode(errors="replace").decode():
                wrong.append(f"{spelled}: it is not UTF-8. Fix: write it in UTF-8.")
        elif not _SERVICE_LINK.fullmatch(name) and not (name.endswith("PORT") and _SERVICE_URL.match(value)):
            wrong.append(f"{spelled}: {no_such(name, names, PREFIX)}")
    return wrong


def exposed() -> str | None:
    """Return a warning if the configuration file contains the key and is readable by other users."""
    with suppress(OSError, ValueError):
        if "api_key" in tomllib.loads(read_text(CONFIG)) and CONFIG.stat().st_mode & 0o077:
            return f"{CONFIG} contains api_key and is readable by other users. Fix: chmod 600 {CONFIG}."
    return None

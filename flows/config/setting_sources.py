"""The sources of settings: where each value came from, and which setting a mistyped name may mean."""

import difflib
import json
import os
import re
import string
import tomllib
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

PREFIX = "GRAMHOUSE_"

# What copying, an editor or `echo` leaves around a value.
AROUND = f"{string.whitespace}\u00a0\u200b\ufeff"
CONFIG = Path("gramhouse.toml")

# Settings that are JSON in the environment.
_TABLES = {"mapping"}

_SIMILAR = 0.6

# The most names that a message lists.
_LISTED = 20

# Kubernetes sets such variables in each pod for every service of its namespace, including one named gramhouse.
_SERVICE_LINK = re.compile(r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://")

_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def _variables() -> dict[str, tuple[str, str]]:
    """Return the variables with the prefix that are not empty: by setting, the name as spelled, and the value.

    The value is without the characters of `AROUND` at its ends.
    """
    found: dict[str, tuple[str, str]] = {}
    for spelled, value in os.environ.items():
        if value and spelled.upper().startswith(PREFIX):
            found.setdefault(_setting(spelled), (spelled, value.strip(AROUND) or value))
    return found


def _setting(variable: str) -> str:
    return variable.upper().removeprefix(PREFIX).lower()


def from_environment(known: Collection[str]) -> dict[str, str]:
    """Return the settings in the environment, as text."""
    return {name: value for name, (_, value) in _variables().items() if name in known}


def given(known: Collection[str]) -> dict[str, Any]:
    """Return the values of the environment and the configuration file. The environment has precedence.

    A table is JSON in the environment. Raises OSError, UnicodeDecodeError and TOMLDecodeError.
    """
    found = from_environment(known)
    decoded = {name: _table(value) if name in _TABLES else value for name, value in found.items()}
    try:
        document = read_text(CONFIG)
    except FileNotFoundError:
        document = ""
    return {**tomllib.loads(document), **decoded}


def not_utf8(known: Collection[str]) -> list[str]:
    """Return a line for each setting in the environment that is not text in UTF-8."""
    return [
        f"{spelled}: it is not UTF-8. Fix: write it in UTF-8."
        for name, (spelled, value) in _variables().items()
        if name in known and value != value.encode(errors="replace").decode()
    ]


def _table(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        # The validation rejects it, like any other wrong value.
        return text


def origin(*path: str | int) -> str:
    """Return the variable, or the file and line, that set the value at `path`: a setting, and keys inside it if any."""
    setting, *keys = map(str, path)
    if setting in (found := _variables()):
        return ".".join([found[setting][0], *keys])
    line = line_of(_read(CONFIG), path)
    named = ".".join([setting, *keys])
    return f"{CONFIG}, line {line}: {named}" if line else (PREFIX + named).upper()


def line_of(document: str, path: Sequence[str | int]) -> int | None:
    """Return the line, from 1, of the statement that sets the deepest part of `path` in a TOML document.

    None if the document sets no part of it.
    """
    lines = document.split("\n")
    deepest, found, begin = 0, None, 1
    for end in range(1, len(lines) + 1):
        try:
            depth = _depth(tomllib.loads("\n".join(lines[:end])), path)
        except tomllib.TOMLDecodeError:
            # This line is inside a multi-line value.
            continue
        if depth > deepest:
            deepest, found = depth, begin
        begin = end + 1
    return found


def _depth(node: Any, path: Sequence[str | int]) -> int:  # noqa: ANN401 - any TOML
    depth = 0
    for part in path:
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            break
        depth += 1
    return depth


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, with or without a byte order mark. Raises OSError and UnicodeDecodeError."""
    return path.read_text(encoding="utf-8-sig")


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError):
        return ""


# Settings of 0.2.0, with what to do instead. The most similar name of today means something else.
_GONE = {
    "archive": "remove it",
    "keep_archive": "remove it",
    "keep_prefect": "set PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD, in seconds",
    "keep_quarantine": "remove it; keep_runs limits the quarantine, too",
    "prefect_database": "set PREFECT_SERVER_DATABASE_CONNECTION_URL",
    "store": "remove it",
}


def no_such(name: str, known: Collection[str], prefix: str = "") -> str:
    """Return why a name is rejected, with the setting that it most likely means."""
    if name.lower() in _GONE:
        return f"there is no such setting any more. Fix: {_GONE[name.lower()]}."
    names = {each.lower(): prefix + each for each in known}
    if near := difflib.get_close_matches(name.lower(), names, n=1, cutoff=_SIMILAR):
        return f"unknown setting; did you mean {names[near[0]]}?"
    right = f"use one of {', '.join(names.values())}" if len(names) <= _LISTED else "see docs/settings.md for the names"
    return f"unknown setting. Fix: remove it, or {right}."


def unknown_variables(known: Collection[str]) -> list[str]:
    """Return a message for each variable that begins with the prefix but is not a setting."""
    names = [name.upper() for name in known]
    return [
        f"{spelled}: {no_such(name, names, PREFIX)}"
        for spelled, value in sorted(os.environ.items())
        if spelled.upper().startswith(PREFIX)
        and (name := _setting(spelled).upper()) not in names
        and not _SERVICE_LINK.fullmatch(name)
        and not (name.endswith("PORT") and _SERVICE_URL.match(value))
    ]


def not_toml(error: tomllib.TOMLDecodeError) -> str:
    """Return the message for a configuration file that is not valid TOML, without any part of the key."""
    text = str(error)
    at = _POSITION.search(text)
    line = int(at[1]) if at and at[1] else None
    content = _read(CONFIG).split("\n")[line - 1] if line else ""
    # The parser's message may quote a character, and its column reveals the length of a value.
    what = "" if "api_key" in content else f": {_POSITION.sub('', text).lower()}"
    return f"{CONFIG}{f', line {line},' if line else ''} is not valid TOML{what}. Fix: correct the file."


def exposed() -> str | None:
    """Return a warning if the configuration file contains the key and is readable by other users."""
    with suppress(OSError, tomllib.TOMLDecodeError):
        if "api_key" in tomllib.loads(_read(CONFIG)) and CONFIG.stat().st_mode & 0o077:
            return f"{CONFIG} contains api_key and is readable by other users. Fix: chmod 600 {CONFIG}."
    return None

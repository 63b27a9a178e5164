"""Where the value of a setting came from, and which setting a mistyped name stands for."""

import difflib
import json
import re
import stat
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

PREFIX = "GRAMHOUSE_"
CONFIG = Path("gramhouse.toml")

_SIMILAR = 0.6

# Kubernetes gives each pod such variables for every service of its namespace, also for one named gramhouse.
_SERVICE_LINK = re.compile(r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://")

_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def variable(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the environment variable, as it is spelled, that sets a setting; None when none does."""
    wanted = (PREFIX + name).upper()
    return next((each for each, value in environ.items() if each.upper() == wanted and value), None)


def given(environ: Mapping[str, str], known: Collection[str], tables: Collection[str]) -> dict[str, Any]:
    """Return what the environment and the configuration file set; the environment wins, in `tables` key by key.

    `tables` are written as JSON in the environment. Raises OSError, UnicodeDecodeError and TOMLDecodeError.
    """
    found = {name: environ[spelled] for name in known if (spelled := variable(name, environ))}
    decoded = {name: _table(value) if name in tables else value for name, value in found.items()}
    return _over(decoded, tomllib.loads(CONFIG.read_text(encoding="utf-8")) if CONFIG.is_file() else {})


def _table(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        # Refused as a wrong value, like any other.
        return text


def _over(winning: Mapping[str, Any], under: Mapping[str, Any]) -> dict[str, Any]:
    both = {
        name: _over(winning[name], under[name])
        for name in winning.keys() & under.keys()
        if isinstance(winning[name], dict) and isinstance(under[name], dict)
    }
    return {**under, **winning, **both}


def origin(path: Sequence[str | int], environ: Mapping[str, str]) -> str:
    """Name the variable, or the file and line, that set what lies at `path`, a setting and what is inside it."""
    found = variable(str(path[0]), environ)
    if found:
        return ".".join([found, *map(str, path[1:])])
    line = line_of(_read(CONFIG), path)
    named = ".".join(map(str, path))
    return f"{CONFIG}, line {line}: {named}" if line else (PREFIX + named).upper()


def line_of(document: str, path: Sequence[str | int]) -> int | None:
    """Return the line, from 1, of the statement that sets the deepest part of `path` in a TOML document.

    None when the document sets nothing of it.
    """
    lines = document.split("\n")
    deepest, found, begin = 0, None, 1
    for end in range(1, len(lines) + 1):
        try:
            depth = _depth(tomllib.loads("\n".join(lines[:end])), path)
        except tomllib.TOMLDecodeError:
            # Inside a value of several lines.
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


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def no_such(name: str, known: Collection[str], prefix: str = "") -> str:
    """Return why a name is refused, with the setting it most likely stands for."""
    names = {each.lower(): prefix + each for each in known}
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=_SIMILAR)
    meant = f"did you mean {names[near[0]]}?" if near else f"valid settings are {', '.join(names.values())}."
    return f"unknown setting; {meant}"


def unknown_variables(environ: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Return a line for each variable that looks like a setting of gramhouse and is none."""
    names = [name.upper() for name in known]
    return [
        f"{variable}: {no_such(name, names, PREFIX)}"
        for variable, value in sorted(environ.items())
        if variable.upper().startswith(PREFIX)
        and (name := variable.upper().removeprefix(PREFIX)) not in names
        and not _SERVICE_LINK.fullmatch(name)
        and not (name.endswith("PORT") and _SERVICE_URL.match(value))
    ]


def not_toml(error: tomllib.TOMLDecodeError, secrets: Collection[str]) -> str:
    """Return the line for a configuration file that is not valid TOML; nothing of a secret's value is in it."""
    text = str(error)
    at = _POSITION.search(text)
    line = int(at[1]) if at and at[1] else None
    content = _read(CONFIG).split("\n")[line - 1] if line else ""
    # What the parser says may quote a character, and its column shows how long a value is.
    what = "" if any(name in content for name in secrets) else f": {_POSITION.sub('', text).lower()}"
    return f"{CONFIG}{f', line {line},' if line else ''} is not valid TOML{what}."


def exposed_secrets(secrets: Collection[str]) -> str | None:
    """Return a warning when the configuration file holds a secret and others on this machine can read it."""
    try:
        held = sorted(tomllib.loads(_read(CONFIG)).keys() & set(secrets))
        exposed = held and CONFIG.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    except (OSError, tomllib.TOMLDecodeError):
        return None
    return (
        f"{CONFIG} contains {' and '.join(held)} and is readable by other users. Fix: chmod 600 {CONFIG}."
        if exposed
        else None
    )

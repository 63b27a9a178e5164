"""Where settings come from: variables and gramhouse.toml; and why one of them is refused."""

import difflib
import os
import re
import string
import tomllib
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.config.errors import SettingsError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

PREFIX = "GRAMHOUSE_"
CONFIG = Path("gramhouse.toml")

# What copying, an editor or `echo` leaves around a value.
AROUND = f"{string.whitespace}\u00a0\u200b\ufeff"

# The most names that a message lists.
_LISTED = 20

# Kubernetes sets such variables in each pod for every service of its namespace, including one named gramhouse.
_SERVICE = re.compile(
    r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)\w*)=.*|.*PORT=(tcp|udp|sctp)://.*"
)


def read_variables() -> dict[str, tuple[str, str]]:
    """Return the variables with the prefix that are not blank: by setting, the name as spelled, and the value.

    Raises SettingsError if one is not UTF-8.
    """
    found = {}
    for spelled, value in os.environ.items():
        name, text = spelled.upper(), value.strip(AROUND)
        variable = f"{name}={text}"
        if name.startswith(PREFIX) and text and not _SERVICE.fullmatch(variable):
            found[name.removeprefix(PREFIX).lower()] = spelled, text
            if variable != variable.encode(errors="replace").decode():
                raise SettingsError(f"{spelled}: it is not UTF-8. Fix: write it in UTF-8.")
    return found


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, with or without a byte order mark. Raises OSError and UnicodeDecodeError."""
    return path.read_text(encoding="utf-8-sig")


def read_file() -> dict[str, Any]:
    """Return what gramhouse.toml sets. Raises SettingsError."""
    try:
        return tomllib.loads(read_text(CONFIG))
    except FileNotFoundError:
        return {}
    except OSError as error:
        why = f"cannot be read: {error.strerror}. Fix: make it a file that this user can read"
    except (ValueError, RecursionError) as error:
        # Nothing else of the parser's message, which may quote the key.
        at = re.search(r"line \d+", str(error))
        why = f"is not valid TOML{f' ({at[0]})' if at else ''}. Fix: correct the file, and save it as UTF-8"
    raise SettingsError(f"{CONFIG} {why}.")


def origin(*path: str | int) -> str:
    """Return the variable or key of the file that set the value at `path`: a setting, and keys inside it if any."""
    setting, *keys = map(str, path)
    if (variable := read_variables().get(setting)) is not None:
        return ".".join([variable[0], *keys])
    named = ".".join([setting, *keys])
    return f"{CONFIG}: {named}" if setting in read_file() else (PREFIX + named).upper()


def find_exposed_key() -> str | None:
    """Return a warning if the configuration file contains the key and is readable by other users."""
    with suppress(OSError, SettingsError):
        if "api_key" in read_file() and CONFIG.stat().st_mode & 0o077:
            return f"{CONFIG} contains api_key and is readable by other users. Fix: chmod 600 {CONFIG}."
    return None


# What replaces settings that 2.0 removed.
_SUCCESSORS = {"stories": "due", "full_refresh_budget": "requests_per_day"}


def no_such(name: str, known: Collection[str], *, is_variable: bool = False) -> str:
    """Return why a name is refused, with the setting that it most likely means."""
    if near := difflib.get_close_matches(_SUCCESSORS.get(name, name), known, n=1):
        return f"unknown setting; did you mean {PREFIX + near[0].upper() if is_variable else near[0]}?"
    right = f"use one of {', '.join(known)}" if len(known) <= _LISTED else "see `gramhouse config` for the names"
    return f"unknown setting. Fix: remove it, or {right}."


def limits(field: "FieldInfo") -> dict[str, Any]:
    """Return the limits of a number, by the name of their parameter of pydantic's Field: ge, gt, le."""
    return {
        name: getattr(constraint, name)
        for constraint in field.metadata
        for name in ("ge", "gt", "le")
        if hasattr(constraint, name)
    }


def number_range(field: "FieldInfo") -> str:
    """Return the limits of a number in words."""
    bounds = limits(field)
    least = f"above {bounds['gt']}, at most" if "gt" in bounds else f"from {bounds['ge']} to"
    return f"{least} {bounds['le']}"


def refuse(where: str, error: Mapping[str, Any], default: object = None, given: str = "") -> str:
    """Return pydantic's error as a line with the fix. A fix in its message, after a semicolon, has precedence."""
    message = str(error["msg"]).removeprefix("Value error, ").replace("Input should", "it must")
    what, _, own = message.partition("; ")
    fix = "change it, or remove it"
    if default is not None:
        fix = f"change it; the default is {str(default).lower() if isinstance(default, bool) else default}"
    return f"{where}: {what[:1].lower()}{what[1:]}{given}. Fix: {own or fix}."

"""Where settings come from: variables and gramhouse.toml; and the line with which a value is refused."""

import os
import re
import string
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from flows.config.errors import SettingsError

PREFIX = "GRAMHOUSE_"
CONFIG = Path("gramhouse.toml")

# What copying, an editor or `echo` leaves around a value.
AROUND = f"{string.whitespace}\u00a0\u200b\ufeff"

# Kubernetes sets such variables in each pod for every service of its namespace, including one named gramhouse.
_SERVICE = re.compile(
    r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)\w*)=.*|.*PORT=(tcp|udp|sctp)://.*"
)


def read_file() -> dict[str, Any]:
    """Return what gramhouse.toml sets. Raises SettingsError."""
    try:
        return tomllib.loads(CONFIG.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        why = f"cannot be read: {error.strerror}. Fix: make it a file that this user can read"
    except (ValueError, RecursionError) as error:
        # Nothing else of the parser's message, which may quote the key.
        at = re.search(r"line \d+", str(error))
        why = f"is not valid TOML{f' ({at[0]})' if at else ''}. Fix: correct the file, and save it as UTF-8"
    raise SettingsError(f"{CONFIG} {why}.")


def read_given() -> dict[str, tuple[str, Any]]:
    """Return what is set: by setting, the variable or the file's key, and its value. Variables precede the file.

    A blank variable is not set. Raises SettingsError.
    """
    given = {name: (f"{CONFIG}: {name}", value) for name, value in read_file().items()}
    for spelled, value in os.environ.items():
        name, text = spelled.upper(), value.strip(AROUND)
        if name.startswith(PREFIX) and text and not _SERVICE.fullmatch(f"{name}={text}"):
            if text != text.encode(errors="replace").decode():
                raise SettingsError(f"{spelled}: it is not UTF-8. Fix: write it in UTF-8.")
            given[name.removeprefix(PREFIX).lower()] = spelled, text
    return given


def origin(setting: str) -> str:
    """Return the variable or key of the file that sets a setting; the variable's name if nothing does."""
    return read_given().get(setting, (PREFIX + setting.upper(),))[0]


def find_exposed_key() -> str | None:
    """Return a warning if the configuration file contains the key and is readable by other users."""
    with suppress(OSError, SettingsError):
        if "api_key" in read_file() and CONFIG.stat().st_mode & 0o077:
            return f"{CONFIG} contains api_key and is readable by other users. Fix: chmod 600 {CONFIG}."
    return None


def refuse(where: str, error: Mapping[str, Any], given: str = "") -> str:
    """Return pydantic's error as a line with the fix. A fix in its message, after a semicolon, has precedence."""
    message = str(error["msg"]).removeprefix("Value error, ").replace("Input should", "it must")
    what, _, fix = message.partition("; ")
    return f"{where}: {what[:1].lower()}{what[1:]}{given}. Fix: {fix or 'change it, or remove it'}."

"""What is set where: variables, gramhouse.toml, and what Prefect reads of both kinds of places."""

import os
import re
import string
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from flows.config.errors import SettingsError

PREFIX = "GRAMHOUSE_"
CONFIG = Path("gramhouse.toml")

# What copying, an editor or `echo` leaves around a value.
AROUND = f"{string.whitespace}\u00a0\u200b\ufeff"

# Kubernetes sets such variables in each pod for every service of its namespace, including one named gramhouse.
_SERVICE = re.compile(
    r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)\w*)=.*|.*PORT=(tcp|udp|sctp)://.*"
)

_PREFECT_API = "PREFECT_API_URL"

# How long Prefect's server keeps its history: 30 days, unless the environment says otherwise.
HISTORY = {
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs,orphans",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(30 * 24 * 3600),
    "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "P30D",
}


class _Profiles(BaseModel):
    active: str | None = None
    profiles: dict[str, dict[str, Any]] = {}


def _read_toml(path: Path) -> dict[str, Any]:
    """Return what a file sets; nothing if there is none. Raises SettingsError and OSError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        # Nothing else of the parser's message, which may quote the key.
        line = re.search(r"line \d+", str(error))
        where = f" ({line[0]})" if line else ""
        fix = "correct the file (texts are in quotes), and save it as UTF-8"
        raise SettingsError(f"{path} is not valid TOML{where}. Fix: {fix}.") from None


def read_file() -> dict[str, Any]:
    """Return what gramhouse.toml sets. Raises SettingsError."""
    try:
        return _read_toml(CONFIG)
    except OSError as error:
        fix = "make it a file that this user can read"
        raise SettingsError(f"{CONFIG} cannot be read: {error.strerror}. Fix: {fix}.") from None


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


def variable_of(setting: str) -> str:
    """Return the name of a setting's variable."""
    return PREFIX + setting.upper()


def origin(setting: str) -> str:
    """Return the variable or key of the file that sets a setting; the variable's name if nothing does."""
    return read_given().get(setting, (variable_of(setting),))[0]


def find_exposed_key() -> str | None:
    """Return a warning if the configuration file contains the key and is readable by other users."""
    with suppress(OSError, SettingsError):
        if "api_key" in read_file() and CONFIG.stat().st_mode & 0o077:
            return f"{CONFIG} contains api_key and is readable by other users. Fix: chmod 600 {CONFIG}."
    return None


def prefect_api_url() -> str | None:
    """Return the address that PREFECT_API_URL or the active Prefect profile names; None: runs are not tracked.

    Raises SettingsError if the file of profiles is damaged.
    """
    if _PREFECT_API in os.environ:
        return os.environ[_PREFECT_API] or None
    home = Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()
    path, found = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml"), _Profiles()
    with suppress(OSError):
        try:
            found = _Profiles.model_validate(_read_toml(path))
        except ValidationError:
            fix = "correct it with `prefect profile`, or remove it"
            raise SettingsError(f"{path} is not a file of Prefect profiles. Fix: {fix}.") from None
    url = found.profiles.get(os.environ.get("PREFECT_PROFILE") or found.active or "", {}).get(_PREFECT_API)
    return str(url) if url else None


def set_environment(changes: Mapping[str, str]) -> None:
    """Change this process's environment, which Prefect reads when it is imported, and which child processes inherit.

    Prefect's client then reaches this machine directly, whatever proxies are set.
    """
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
    direct = ",".join([*re.findall(r"[^\s,]+", given), "127.0.0.1", "localhost", "::1"])
    os.environ.update({**HISTORY, **os.environ, "no_proxy": direct, **changes})

"""What Prefect reads of the environment: the address of its API, and proxies that its clients can use."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from flows.config.errors import SettingsError

_NAME = "PREFECT_API_URL"


def prefect_api_url() -> str | None:
    """Return the address that PREFECT_API_URL or the active Prefect profile names; None: runs are not tracked.

    Raises SettingsError if the file of profiles is damaged.
    """
    if _NAME in os.environ:
        return os.environ[_NAME] or None
    home = Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()
    file = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml")
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
        profile = found.get("profiles", {}).get(os.environ.get("PREFECT_PROFILE") or found.get("active"), {})
        return profile.get(_NAME) or None
    except OSError:
        return None
    except (ValueError, AttributeError):
        raise SettingsError(
            f"{file}: it is no file of Prefect profiles. Fix: correct it, or set PREFECT_API_URL (empty: no tracking)."
        ) from None


_PROXIES = ("http_proxy", "https_proxy", "all_proxy")

# What httpx can parse: SOCKS would need another library, and anything else ends the process with a traceback.
_PROXY = re.compile(r"(https?://)?([^\s/@?#\[\]]*@)?([\w.-]+|\[[\da-f:.]+\])(:\d{1,5})?/?", re.ASCII | re.IGNORECASE)
_EXCEPTION = re.compile(r"[\w.*-]+(:\d{1,5})?|\d+(\.\d+){3}/\d+|[\da-f:.]+", re.ASCII | re.IGNORECASE)


def _without_proxies() -> dict[str, str]:
    """Return the changes with which Prefect's client reaches this machine directly, whatever proxies are set.

    Names in lower case have precedence for Prefect's client. It ignores an empty value, while the client of the service
    then reads the name in upper case (connectors/source/network.py), so that it still reports a proxy that it needs.
    """
    found = {name: os.environ.get(name) or os.environ.get(name.upper(), "") for name in (*_PROXIES, "no_proxy")}
    if not any(found[name] for name in _PROXIES):
        return {}
    exceptions = [entry for entry in re.split(r"[\s,]+", found["no_proxy"]) if _EXCEPTION.fullmatch(entry)]
    changes = {"no_proxy": ",".join([*exceptions, "127.0.0.1", "localhost", "::1"])}
    for name in _PROXIES:
        if not _PROXY.fullmatch(found[name]):
            changes |= {name: "", name.upper(): found[name]}
    return changes


def environment(**changes: str) -> dict[str, str]:
    """Return this process's environment with changes, for a Python process that it starts.

    PYTHONSAFEPATH is set because the current folder may have modules with our names, such as a package `models`.
    """
    return {**os.environ, **_without_proxies(), "PYTHONSAFEPATH": "1", **changes}


def set_environment(changes: Mapping[str, str]) -> None:
    """Change this process's environment, which Prefect reads when it is imported, and which child processes inherit."""
    os.environ.update({**_without_proxies(), **changes})

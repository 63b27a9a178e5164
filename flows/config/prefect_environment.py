"""What Prefect reads of the environment: the address of its API, which addresses need no proxy, and settings."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from flows.config.errors import SettingsError

_NAME = "PREFECT_API_URL"

# How long Prefect's server keeps its history: 30 days, unless the environment says otherwise.
HISTORY = {
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs,orphans",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(30 * 24 * 3600),
    "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "P30D",
}


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


def set_environment(changes: Mapping[str, str]) -> None:
    """Change this process's environment, which Prefect reads when it is imported, and which child processes inherit.

    Prefect's client then reaches this machine directly, whatever proxies are set.
    """
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
    direct = ",".join([*re.findall(r"[^\s,]+", given), "127.0.0.1", "localhost", "::1"])
    os.environ.update({**HISTORY, **os.environ, "no_proxy": direct, **changes})

"""What Prefect reads of the environment: the address of its API, and which addresses need no proxy."""

import os
import re
import tomllib
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


def without_proxies() -> dict[str, str]:
    """Return the variable with which Prefect's client reaches this machine directly, whatever proxies are set."""
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")
    return {"no_proxy": ",".join([*re.findall(r"[^\s,]+", given), "127.0.0.1", "localhost", "::1"])}

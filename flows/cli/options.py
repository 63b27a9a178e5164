"""Options that several commands have. Those of settings have the help of the model that declares them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from connectors.warehouse.storage.paths import local
from flows.config.errors import SettingsError, refuse
from flows.config.options import ADVANCED, ExpertOptions, Surface, describe_setting, to_time

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def number(text: str, least: int = 1, most: int = 1_000_000_000) -> Parameter:
    """Return the option of a whole number in a range; `text` is its help."""
    return Parameter(validator=Number(gte=least, lte=most), help=text)


def of_setting(name: str) -> Parameter:
    """Return the option that overrides a setting; its help names the setting."""
    return Parameter(help=describe_setting(name), group=ADVANCED)


def to_path(name: str, text: str, check: Callable[[Path], Path] = local) -> Path:
    """Return the path given as the option or argument `name`. Raises SettingsError if `check` raises ValueError."""
    try:
        return check(Path(text))
    except ValueError as error:
        raise SettingsError(refuse(name, {"msg": error}, given=f" (got {text!r})")) from None


def since_time(name: str, text: str, now: datetime) -> datetime:
    """Return the time given as the option `name`: so long before now, or a date (UTC). Raises SettingsError."""
    try:
        if found := re.fullmatch(r"(\d+)([mhdw])", text.strip()):
            return now - timedelta(**{_UNITS[found[2]]: int(found[1])})
        return to_time(text)
    except (ValueError, OverflowError):
        raise SettingsError(
            f"{name} {text!r} is not a time. Fix: use 2d, 36h or 90m, or a date such as 2026-03-01."
        ) from None


AsJson = Annotated[bool, Parameter("--json", help="Print one JSON document to standard output.")]
# Paths are strings here: Path would turn s3://bucket into s3:/bucket, and messages would show that.
WarehouseFile = Annotated[str | None, of_setting("warehouse")]
SnapshotFile = Annotated[str | None, of_setting("snapshot")]
BusyWait = Annotated[float | None, of_setting("busy_wait")]
SurfaceNames = Annotated[
    list[Surface] | None, Parameter("--surface", metavar="SURFACE", help="Only this surface; may be repeated.")
]
AccountNames = Annotated[
    list[str] | None,
    Parameter("--account", metavar="ACCOUNT", help="Only this account (id, name or public id); may be repeated."),
]
LogFormat = Annotated[
    Literal["text", "json"],
    # Only declared here: flows/cli/app.py reads it before the command line is parsed.
    Parameter("--log-format", help="Log lines on standard error: text, or one JSON object per line."),
]
_RETRIES = "Retries of a run that failed because of an outage: after 5 and 15 minutes, then every 60 minutes."


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class RunArguments:
    """The options of all commands that start a run, and which its flow does not have."""

    as_json: AsJson = False
    verbose: Annotated[bool, Parameter(("--verbose", "-v"), help="Log every retry and wait.")] = False
    log_format: LogFormat = "text"
    retries: Annotated[int, number(_RETRIES, 0)] = 0
    base_url: Annotated[str | None, of_setting("base_url")] = None
    scheduler: Annotated[str | None, of_setting("scheduler")] = None

    def settings(self, expert: ExpertOptions) -> dict[str, object]:
        """Return the settings that the command line changes: those of the flow, and its own."""
        return {**expert.model_dump(), "base_url": self.base_url, "scheduler": self.scheduler}

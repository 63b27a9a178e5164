"""Options that several commands have. Those of settings have the help of the model that declares them."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from connectors.warehouse.storage.paths import local
from flows.config.errors import SettingsError
from flows.config.options import ADVANCED, ExpertOptions, check_surface, to_time
from flows.config.setting_sources import PREFIX
from flows.config.settings import Settings, load
from flows.config.wrong_value import refusal
from models.feeds import SURFACES

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def number(least: int, most: int, text: str) -> Parameter:
    """Return the option of a whole number in a range; `text` is its help."""
    return Parameter(validator=Number(gte=least, lte=most), help=text, metavar="NUMBER")


def of_setting(name: str, word: str) -> Parameter:
    """Return the option that overrides a setting; its help names the setting. `word` stands for its value."""
    text = str(Settings.model_fields[name].description).removesuffix(".")
    return Parameter(help=f"{text} ({PREFIX}{name.upper()}).", metavar=word, group=ADVANCED)


def _check_surfaces(_: object, names: Sequence[str] | None) -> None:
    for name in names or ():
        check_surface(name)


def to_path(name: str, text: str, check: Callable[[Path], Path] = local) -> Path:
    """Return the path given as the option or argument `name`. Raises SettingsError if `check` raises ValueError."""
    try:
        return check(Path(text))
    except ValueError as error:
        raise SettingsError(refusal(f"{name}: {error}", f" (got {text!r})")) from None


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
WarehouseFile = Annotated[str | None, of_setting("warehouse", "PATH")]
SnapshotFile = Annotated[str | None, of_setting("snapshot", "PATH")]
BusyWait = Annotated[float | None, of_setting("busy_wait", "SECONDS")]
SurfaceNames = Annotated[
    list[str] | None,
    Parameter(
        "--surface",
        metavar="|".join(sorted(SURFACES)),
        help="Only this surface; may be repeated.",
        validator=_check_surfaces,
    ),
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


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class RunArguments:
    """The options shared by all commands that start a run."""

    as_json: AsJson = False
    verbose: Annotated[bool, Parameter(("--verbose", "-v"), help="Log every retry and wait.")] = False
    log_format: LogFormat = "text"
    retries: Annotated[
        int,
        number(
            0,
            1_000_000_000,
            "Retries of a run that failed because of an outage: after 5 and 15 minutes, then every 60 minutes.",
        ),
    ] = 0
    base_url: Annotated[str | None, of_setting("base_url", "URL")] = None
    scheduler: Annotated[str | None, of_setting("scheduler", "ADDRESS")] = None

    @property
    def command_line_only(self) -> dict[str, object]:
        """The settings that can only be changed on the command line: they are not parameters of a flow."""
        return {"base_url": self.base_url, "scheduler": self.scheduler}

    def settings(self, chosen: ExpertOptions) -> Settings:
        """Return the settings of this run. Raises SettingsError."""
        return load(**chosen.model_dump(), **self.command_line_only)


@contextmanager
def recorded(command: str, chosen: ExpertOptions) -> Iterator[None]:
    """Record wrong settings, so that `gramhouse status` shows that `command` failed to start.

    Options that are mistyped at a terminal are not recorded: nothing that runs on schedule has failed.
    """
    try:
        yield
    except SettingsError as error:
        if sys.stderr.isatty() and all(str(line).startswith("--") for line in error.args):
            raise
        from flows.reporting.recording import record_failed_start

        with record_failed_start(command, chosen.model_dump()):
            raise

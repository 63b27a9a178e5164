"""Options of commands. Those of settings and of runs have the help of the models that declare them."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import BaseModel

from connectors.warehouse.storage.paths import local
from flows.cli.command_table import ADVANCED
from flows.config.errors import SettingsError
from flows.config.options import ExpertOptions, SyncOptions, to_time
from flows.config.setting_sources import PREFIX
from flows.config.settings import Settings, load
from flows.config.wrong_value import refusal
from models.feeds import SURFACES

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _name(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def option(model: type[BaseModel], field: str, name: str | None = None, word: str | None = None) -> Any:  # noqa: ANN401 - Typer's
    """Return the option of a model's field; by default it has the field's name. `word` stands for its value."""
    text = str(model.model_fields[field].description)
    repeated = " May be repeated." if model.model_fields[field].default == [] else ""
    return typer.Option(name or _name(field), metavar=word, help=text + repeated)


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


def of_setting(field: str, word: str | None = None) -> Any:  # noqa: ANN401 - Typer's
    """Return the option that overrides a setting; its help names the setting."""
    text = str(Settings.model_fields[field].description).removesuffix(".")
    named = f"{text} ({PREFIX}{field.upper()})."
    return typer.Option(_name(field), metavar=word, help=named, rich_help_panel=ADVANCED)


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]
# Paths are strings here: Path would turn s3://bucket into s3:/bucket, and messages would show that.
WarehouseFile = Annotated[str | None, of_setting("warehouse", "PATH")]
SnapshotFile = Annotated[str | None, of_setting("snapshot", "PATH")]
BusyWait = Annotated[float | None, of_setting("busy_wait", "SECONDS")]
SurfaceNames = Annotated[
    list[str] | None,
    typer.Option(
        "--surface",
        metavar="|".join(sorted(SURFACES)),
        help=f"{SyncOptions.model_fields['surfaces'].description} May be repeated.",
    ),
]
AccountNames = Annotated[
    list[str] | None,
    typer.Option("--account", help="Only this account (id, name or public id); may be repeated."),
]
LogFormat = Annotated[
    Literal["text", "json"],
    # Only declared here: flows/cli/app.py reads it before the command line is parsed.
    typer.Option("--log-format", help="Log lines on standard error: text, or one JSON object per line."),
]


@dataclass(frozen=True, slots=True)
class RunArguments:
    """The options shared by all commands that start a run."""

    as_json: AsJson = False
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every retry and wait.")] = False
    log_format: LogFormat = "text"
    retries: Annotated[
        int,
        typer.Option(
            "--retries",
            help="Retries of a run that failed because of an outage: after 5 and 15 minutes, then every 60 minutes.",
            min=0,
            max=1_000_000_000,
        ),
    ] = 0
    base_url: Annotated[str | None, of_setting("base_url", "URL")] = None
    warehouse: WarehouseFile = None
    snapshot: SnapshotFile = None
    concurrency: Annotated[int | None, of_setting("concurrency")] = None
    page_size: Annotated[int | None, of_setting("page_size")] = None
    max_wait: Annotated[float | None, of_setting("max_wait", "SECONDS")] = None
    busy_wait: BusyWait = None
    workers: Annotated[int | None, of_setting("workers", "NUMBER")] = None
    scheduler: Annotated[str | None, of_setting("scheduler", "ADDRESS")] = None

    @property
    def chosen(self) -> dict[str, object]:
        """The settings of this run that are also parameters of its flow; None: as configured."""
        return {name: getattr(self, name) for name in ExpertOptions.model_fields if hasattr(self, name)}

    @property
    def command_line_only(self) -> dict[str, object]:
        """The settings that can only be changed on the command line: they are not parameters of a flow."""
        return {"base_url": self.base_url, "scheduler": self.scheduler}

    @contextmanager
    def recorded(self, command: str) -> Iterator[None]:
        """Record wrong settings and options, so that `gramhouse status` shows that `command` failed to start.

        Options that are mistyped at a terminal are not recorded: nothing that runs on schedule has failed.
        """
        try:
            yield
        except SettingsError as error:
            if sys.stderr.isatty() and all(str(line).startswith("--") for line in error.args):
                raise
            from flows.reporting.recording import record_failed_start

            with record_failed_start(command, self.chosen):
                raise

    def settings(self) -> Settings:
        """Return the settings of this run. Raises SettingsError."""
        return load(**self.chosen, **self.command_line_only)


def with_run_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Add these options to a command, which receives them as its argument `run`."""
    shared = signature(RunArguments).parameters

    @wraps(command)
    def wrapper(**given: object) -> None:
        run = RunArguments(**{name: given.pop(name) for name in shared})  # type: ignore[arg-type]
        command(**given, run=run)

    own = [parameter for name, parameter in signature(command).parameters.items() if name != "run"]
    all_of_them = [*own, *(each.replace(kind=Parameter.KEYWORD_ONLY) for each in shared.values())]
    vars(wrapper)["__signature__"] = Signature(all_of_them)
    wrapper.__annotations__ = {each.name: each.annotation for each in all_of_them}
    return wrapper

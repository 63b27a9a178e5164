"""Options that several commands have, and the files that these choose: the snapshot, and the state."""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from connectors.warehouse.publish.replaceable import another_warehouse, check_snapshot
from connectors.warehouse.queries.reader import Record, Snapshot, open_snapshot
from connectors.warehouse.storage.files import local, real
from connectors.warehouse.storage.holder import holder
from flows.config.errors import SettingsError, refuse
from flows.config.options import ADVANCED, ExpertOptions, Surface, describe_setting, to_time
from flows.config.settings import Settings, load
from models.files import NEW, WarehouseUnusable
from models.runs import RunState

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

# The fewest of the last runs that are read: as many as begin while no snapshot can be published for a month.
_LEAST = 1000

_RUNS = "SELECT * FROM runs WHERE kind <> 'totals' ORDER BY seq DESC LIMIT ?"


def number(least: int = 1, most: int = 1_000_000_000) -> Parameter:
    """Return the option of a whole number in a range."""
    return Parameter(validator=Number(gte=least, lte=most))


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


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Output:
    """The options of all commands that report."""

    as_json: Annotated[bool, Parameter("--json")] = False
    """Print one JSON document to standard output."""
    log_format: LogFormat = "text"


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class RunArguments(Output):
    """The options of all commands that start a run, and which its flow does not have."""

    verbose: Annotated[bool, Parameter(("--verbose", "-v"))] = False
    """Log every retry and wait."""
    retries: Annotated[int, number(0)] = 0
    """Retries of a run that failed because of an outage: after 5 and 15 minutes, then every 60 minutes."""
    base_url: Annotated[str | None, of_setting("base_url")] = None
    scheduler: Annotated[str | None, of_setting("scheduler")] = None

    def settings(self, expert: ExpertOptions) -> dict[str, object]:
        """Return the settings that the command line changes: those of the flow, and its own."""
        return {**expert.model_dump(), "base_url": self.base_url, "scheduler": self.scheduler}


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class SnapshotOptions(Output):
    """The options of commands that read the snapshot."""

    # Not a Path, which would turn s3://bucket into s3:/bucket.
    snapshot: Annotated[str | None, of_setting("snapshot")] = None

    def settings(self) -> Settings:
        """Return the settings for these files. Raises SettingsError."""
        return load(snapshot=self.snapshot)

    def open(self, *, with_raw: bool = False) -> AbstractContextManager[Snapshot]:
        """Open the current snapshot."""
        return open_snapshot(current_snapshot(self.settings()), with_raw=with_raw)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class WarehouseOptions(SnapshotOptions):
    """The options of commands that read or write the warehouse or the state, too."""

    warehouse: Annotated[str | None, of_setting("warehouse")] = None

    def settings(self, **changed: object) -> Settings:
        """Return the settings for these files. Raises SettingsError."""
        return load(warehouse=self.warehouse, snapshot=self.snapshot, **changed)


def current_snapshot(settings: Settings) -> Path:
    """Return the snapshot's file on this machine, after downloading it if the bucket has a newer one.

    On the machine of the warehouse nothing is downloaded, because its file is the latest one. Raises BucketError,
    OSError, and WarehouseUnusable if another file is in the place of the download.
    """
    url, file = settings.snapshot_url(), settings.snapshot_file()
    if url is not None and not settings.warehouse.exists():
        import asyncio

        from connectors.buckets import SnapshotBucket

        check_snapshot(file)
        asyncio.run(SnapshotBucket(url).fetch(file))
    return file


@dataclass(frozen=True, slots=True)
class Current:
    """The last runs, newest first, and the process that holds the warehouse's lock, as the state knows them.

    `command` is the last command if it is none of them: a start of a run that failed, or another one such as publish.
    `is_unpublished` says whether the snapshot lacks the last run, `problem` why the state cannot be read, `is_erasing`
    whether a `gramhouse forget` was interrupted.
    """

    runs: Sequence[Record] = ()
    command: Record | None = None
    writing: str | None = None
    problem: str | None = None
    is_unpublished: bool = False
    is_erasing: bool = False

    def of(self, snapshot: Snapshot, where: str, limit: int = _LEAST, *, is_chosen: bool = False) -> "Current":
        """Return this with the last runs of the snapshot, and what the state says of them since.

        If they have no run in common, the snapshot at `where` is another warehouse's. Raises WarehouseUnusable then; if
        it `is_chosen`, its runs are returned alone.
        """
        found = {run["run_id"]: run for run in snapshot.query(_RUNS, [max(limit, _LEAST)])}
        ours = [run["run_id"] for run in self.runs]
        if ours and found and found.keys().isdisjoint(ours):
            if not is_chosen:
                raise WarehouseUnusable(another_warehouse(where))
            return Current([*found.values()][:limit])
        # The snapshot may be an older copy; it alone has what the merge counted.
        is_unpublished = self.is_unpublished or not found.keys() >= {*ours[:1]}
        empty = {column["name"]: None for column in snapshot.columns("runs")}
        for run in self.runs:
            since = {name: run[name] for name in empty if run.get(name) is not None}
            found[run["run_id"]] = empty | found.get(run["run_id"], {}) | since
        runs = sorted(found.values(), key=lambda run: -run["seq"])[:limit]
        return replace(self, runs=runs, is_unpublished=is_unpublished)


def current(settings: Settings, limit: int = _LEAST) -> Current:
    """Read the state and at least so many runs; a command whose process is gone is shown as interrupted."""
    # Imported here, because only some commands need SQLAlchemy.
    from connectors.state.database import open_state_read_only, state_path
    from connectors.state.identity import read_erasure, read_identity
    from connectors.state.runs import KILLED, last_command, read_runs

    writing, lost = holder(settings.warehouse), None
    # Without the warehouse, too, the snapshot is a copy: the state is where it was published.
    if settings.warehouse.exists():
        lost = f"There is no state beside {settings.warehouse}. Fix: `gramhouse doctor` says what is missing."
    try:
        with open_state_read_only(state_path(real(settings.warehouse))) as state:
            if state is None:
                return Current(writing=writing, problem=lost)
            command, runs = state.read(last_command), state.read(read_runs, limit=max(limit, _LEAST))
            is_erasing = bool(state.read(read_erasure).accounts)
            # A command that was refused because there was none has left an empty one.
            problem = lost if writing is None and state.read(read_identity).token == NEW else None
    except WarehouseUnusable as error:
        return Current(writing=writing, problem=str(error))
    for row in (*runs, *filter(None, [command])):
        # Each command that takes the lock marks what was killed.
        if row["state"] == RunState.RUNNING and writing is None:
            row |= {"state": RunState.INTERRUPTED.value, "detail": KILLED}
    return Current(runs, command, writing, problem, bool(runs) and runs[0]["published_at"] is None, is_erasing)

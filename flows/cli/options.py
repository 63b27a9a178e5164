"""Options that several commands share."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Literal

import typer

from flows.config.errors import SettingsError
from flows.config.settings import Settings, load

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output.")]
# Paths are strings here: Path would turn s3://bucket into s3:/bucket, and messages would show that.
WarehouseFile = Annotated[
    str | None,
    typer.Option("--warehouse", metavar="PATH", help="The writer's DuckDB file (GRAMHOUSE_WAREHOUSE)."),
]
SnapshotFile = Annotated[
    str | None,
    typer.Option(
        "--snapshot",
        metavar="PATH",
        help="The analysts' DuckDB file, or its address in a bucket (GRAMHOUSE_SNAPSHOT).",
    ),
]
BaseUrl = Annotated[str | None, typer.Option("--base-url", help="Address of the service (GRAMHOUSE_BASE_URL).")]
Concurrency = Annotated[
    int | None,
    typer.Option("--concurrency", help="Maximum number of concurrent requests (GRAMHOUSE_CONCURRENCY)."),
]
PageSize = Annotated[
    int | None,
    typer.Option("--page-size", help="Records per page, 1 to 50 (GRAMHOUSE_PAGE_SIZE)."),
]
MaxWait = Annotated[
    float | None,
    typer.Option(
        "--max-wait",
        help="Longest wait in seconds for one rate-limited account (GRAMHOUSE_MAX_WAIT).",
    ),
]
BusyWait = Annotated[
    float | None,
    typer.Option(
        "--busy-wait",
        help="Wait for the lock: seconds to wait while another process holds the warehouse (GRAMHOUSE_BUSY_WAIT).",
    ),
]
Engine = Annotated[
    Literal["local", "dask"] | None,
    typer.Option(
        "--engine",
        help="Scan in this process or on Dask workers (GRAMHOUSE_ENGINE).",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Address of the Dask scheduler, such as tls://host:8786. Default: start workers on this machine"
        " (GRAMHOUSE_SCHEDULER).",
    ),
]
SurfaceNames = Annotated[
    list[str] | None,
    typer.Option("--surface", help="posts or stories; may be repeated. Default: both."),
]
Retries = Annotated[
    int,
    typer.Option(
        "--retries",
        help="Retries of a run that failed because of an outage: after 5 and 15 minutes, then every 60 minutes.",
        min=0,
    ),
]
LogFormat = Annotated[
    Literal["text", "json"],
    # Only declared here: flows/cli/app.py reads it before the command line is parsed.
    typer.Option("--log-format", help="Log lines on standard error: text, or one JSON object per line."),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log every retry and wait.")]
AcceptRemovals = Annotated[
    bool,
    typer.Option(
        "--accept-removals",
        help="Mark all accounts as removed that the catalogue no longer lists, even if there are many.",
    ),
]
Rebind = Annotated[
    bool,
    typer.Option("--rebind", help="Accept a service address other than the one the warehouse was filled from."),
]
Incremental = Annotated[
    bool,
    typer.Option(
        "--incremental",
        help="Fetch only new and recent posts, for accounts whose posts are known to be listed newest first"
        " (GRAMHOUSE_SYNC_MODE).",
    ),
]
FullRefresh = Annotated[
    bool, typer.Option("--full-refresh", help="Fetch all posts of every account (GRAMHOUSE_SYNC_MODE).")
]
MaxRequests = Annotated[
    int | None,
    typer.Option("--max-requests", help="Maximum number of requests; remaining scans are deferred.", min=1),
]


@dataclass(frozen=True, slots=True)
class RunArguments:
    """The options shared by all commands that start a run."""

    base_url: BaseUrl = None
    warehouse: WarehouseFile = None
    snapshot: SnapshotFile = None
    concurrency: Concurrency = None
    page_size: PageSize = None
    max_wait: MaxWait = None
    busy_wait: BusyWait = None
    engine: Engine = None
    scheduler: Scheduler = None
    retries: Retries = 0
    as_json: AsJson = False
    verbose: Verbose = False
    log_format: LogFormat = "text"

    @property
    def chosen(self) -> dict[str, object]:
        """The settings of this run that are also parameters of its flow; None: as configured."""
        names = ("warehouse", "snapshot", "concurrency", "page_size", "max_wait", "busy_wait", "engine")
        return {name: getattr(self, name) for name in names}

    @property
    def command_line_only(self) -> dict[str, object]:
        """The settings that can only be changed on the command line: they are not parameters of a flow."""
        return {"base_url": self.base_url, "scheduler": self.scheduler}

    def settings(self, command: str) -> Settings:
        """Return the settings of this run of `command`. Raises SettingsError, which `gramhouse status` then shows."""
        try:
            return load(**self.chosen, **self.command_line_only)
        except SettingsError:
            from flows.reporting.recording import recorded_start

            with recorded_start(command, self.chosen):
                raise


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

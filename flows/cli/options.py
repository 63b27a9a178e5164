"""Options that several commands share."""

from typing import Annotated, Literal

import typer

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, for programs.")]
# Paths are text here: Path would make s3:/bucket of s3://bucket, and a message would show that.
WarehouseFile = Annotated[
    str | None,
    typer.Option(
        "--warehouse", metavar="PATH", help="The writer's DuckDB file (GRAMHOUSE_WAREHOUSE).", show_default=False
    ),
]
SnapshotFile = Annotated[
    str | None,
    typer.Option(
        "--snapshot", metavar="PATH", help="The analysts' DuckDB file (GRAMHOUSE_SNAPSHOT).", show_default=False
    ),
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", help="Address of the service (GRAMHOUSE_BASE_URL).", show_default=False)
]
Concurrency = Annotated[
    int | None,
    typer.Option("--concurrency", help="Requests in flight at once (GRAMHOUSE_CONCURRENCY).", show_default=False),
]
PageSize = Annotated[
    int | None,
    typer.Option("--page-size", help="Records per page, 1 to 50 (GRAMHOUSE_PAGE_SIZE).", show_default=False),
]
MaxWait = Annotated[
    float | None,
    typer.Option(
        "--max-wait",
        help="Seconds one limited account may make the run wait (GRAMHOUSE_MAX_WAIT).",
        show_default=False,
    ),
]
BusyWait = Annotated[
    float | None,
    typer.Option(
        "--busy-wait",
        help="Seconds to wait for the turn while another run holds the warehouse (GRAMHOUSE_BUSY_WAIT).",
        show_default=False,
    ),
]
Engine = Annotated[
    Literal["local", "dask"] | None,
    typer.Option("--engine", help="Scan in this process, or on Dask workers (GRAMHOUSE_ENGINE).", show_default=False),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="The Dask scheduler, tls://host:8786; workers of this machine without one (GRAMHOUSE_SCHEDULER).",
        show_default=False,
    ),
]
SurfaceNames = Annotated[
    list[str] | None, typer.Option("--surface", help="posts or stories; both if not said.", show_default=False)
]
Retries = Annotated[
    int,
    typer.Option(
        "--retries",
        help="How many times to retry a run that an outage made fail: after 5, 15 and 60 minutes, then hourly.",
        min=0,
    ),
]
LogFormat = Annotated[
    Literal["text", "json"],
    # What is typed is read before it is parsed (flows/cli/app.py); here it is only declared.
    typer.Option("--log-format", help="Lines on standard error: text, or one JSON object each."),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say every retry and wait.")]
AcceptRemovals = Annotated[
    bool,
    typer.Option(
        "--accept-removals", help="Mark accounts removed that the catalogue does not list, however many they are."
    ),
]
Rebind = Annotated[
    bool,
    typer.Option("--rebind", help="Accept this service address, though the warehouse was filled from another one."),
]
Incremental = Annotated[
    bool,
    typer.Option("--incremental", help="Read posts down to those it knows, where that is safe (GRAMHOUSE_SYNC_MODE)."),
]
FullRefresh = Annotated[
    bool, typer.Option("--full-refresh", help="Read all posts of every account (GRAMHOUSE_SYNC_MODE).")
]
MaxRequests = Annotated[
    int | None,
    typer.Option("--max-requests", help="After so many requests defer what is left.", min=1, show_default=False),
]

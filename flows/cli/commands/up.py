"""`gramhouse up`: runs a Prefect server with its UI, and serves the deployments with their schedules."""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from connectors.warehouse.storage.holder import Held, lock
from flows.cli.options import LogFormat
from flows.cli.output.terminal import DONE, FAIL, WARN, clean, err, out
from flows.config.cron import fires, gap_warning
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load, prefect_api_url
from flows.orchestration.processes import (
    PREFECT_QUIET,
    ChildProcess,
    GivenUp,
    ProcessError,
    answers,
    port_is_free,
    prefect_arguments,
    prefect_environment,
    private,
    process,
)
from flows.orchestration.schedules import NOTE, PLANS, READY, REPORT_PATH
from flows.reporting.exit_code import ExitCode
from flows.reporting.page.write import default_path

_LOOK_EVERY = 0.5

# Seconds. The serving process waits for its flow runs to end, each of which may need ten seconds.
_SERVING_GRACE = 17.0

_DAY = int(timedelta(days=1).total_seconds())


def server_environment(settings: Settings) -> dict[str, str]:
    """Return the environment of the Prefect server: storage, retention, no telemetry."""
    env = {
        **prefect_environment(settings.prefect_home, settings.prefect_port),
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs,orphans",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(settings.keep_prefect * _DAY),
        # The same time, in the format of this setting.
        "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": f"P{settings.keep_prefect}D",
    }
    if settings.prefect_database is not None:
        # In the environment, because all users of the machine can read the arguments of a process.
        env["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = settings.prefect_database.get_secret_value()
    return env


def _schedule(settings: Settings, now: datetime) -> Iterator[str]:
    for plan in PLANS:
        if plan.when is None:
            yield f"  {plan.name:<9} on request"
        else:
            due = next(fires(getattr(settings, plan.when), settings.time_zone, now))
            yield f"  {plan.name:<9} next {due:%a %Y-%m-%d %H:%M} {settings.time_zone}"


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Set an event at the first signal; a second one changes nothing, because the shutdown has a time limit."""
    ended = threading.Event()
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # An ignored signal remains ignored: with nohup, the command must survive the end of its terminal.
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, lambda *_: ended.set())
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _message(log: Path, line: bytes) -> Callable[[], bool]:
    return lambda: log.exists() and line in log.read_bytes()


def _watch(processes: list[ChildProcess], ended: threading.Event) -> None:
    while not ended.wait(_LOOK_EVERY):
        for each in processes:
            if each.process.poll() is not None:
                raise each.ended_error()


def _bring_up(settings: Settings, api: str | None, stack: ExitStack, ended: threading.Event) -> list[ChildProcess]:
    home, port = settings.prefect_home, settings.prefect_port
    processes, holds = [], []
    report = settings.report or default_path(settings.snapshot_file())
    # Each run renews the report, even if the setting is not set.
    env: Mapping[str, str] = {**PREFECT_QUIET, "GRAMHOUSE_REPORT": str(report)}
    options = []
    if api is None:
        server, parent_watch = stack.enter_context(
            process(
                "Prefect's server",
                prefect_arguments(report),
                is_up=lambda: answers(port, "/api/health"),
                log=home / "server.log",
                env=server_environment(settings),
            )
        )
        server.wait(ended.is_set)
        processes.append(server)
        # The serving process also holds the server's pipe, so that the server receives the end of its flow runs.
        holds.append(parent_watch)
        home_env = prefect_environment(home, port)
        address = settings.report_url or f"http://127.0.0.1:{port}{REPORT_PATH}"
        env = {
            **env,
            **home_env,
            "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
            "GRAMHOUSE_REPORT_URL": address,
        }
        options.append("--alone")
    log = home / "serving.log"
    serving, _ = stack.enter_context(
        process(
            "The serving process",
            ["flows.orchestration.serving", *options],
            is_up=_message(log, READY.encode()),
            log=log,
            env=env,
            grace=_SERVING_GRACE,
            holds=holds,
        )
    )
    serving.wait(ended.is_set)
    return [*processes, serving]


def _notes(log: Path) -> Iterator[str]:
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(NOTE):
            yield line.removeprefix(NOTE)


def _greet(settings: Settings, api: str | None, now: datetime, notes: Iterable[str]) -> None:
    if api is None:
        here = f"http://127.0.0.1:{settings.prefect_port}"
        out.print(f"{DONE} Prefect's UI is at [bold]{here}[/], its API at {here}/api.")
    else:
        out.print(f"{DONE} Serving to {clean(api)}: PREFECT_API_URL is set, so no server is started here.")
    for line in _schedule(settings, now):
        out.print(clean(line))
    report = settings.report or default_path(settings.snapshot_file())
    shown = "" if api else f", shown at http://127.0.0.1:{settings.prefect_port}{REPORT_PATH}"
    out.print(f"Each run updates the report {clean(report)}{shown}.", soft_wrap=True)
    warning = gap_warning(settings.nightly, settings.stories, settings.time_zone, now)
    for note in (*notes, *([warning] if warning else ())):
        out.print(f"{WARN} {clean(note)}")
    out.print(f"Logs are in {clean(settings.prefect_home)}. Stop with Ctrl-C.")


def _run(settings: Settings, api: str | None, ended: threading.Event) -> None:
    with ExitStack() as stack:
        with err.status("[dim]starting Prefect …[/]"):
            processes = _bring_up(settings, api, stack, ended)
        _greet(settings, api, datetime.now(UTC), _notes(processes[-1].log))
        try:
            _watch(processes, ended)
        finally:
            err.print("Stopping: flow runs first, then the servers.")
    err.print("Stopped.")


def up(
    *,
    port: Annotated[
        int | None,
        typer.Option(help="Port of the Prefect UI (GRAMHOUSE_PREFECT_PORT).", min=1, max=65535, show_default=False),
    ] = None,
    _: LogFormat = "text",
) -> None:
    """Start a Prefect server with its UI and serve the scheduled and manual deployments.

    If PREFECT_API_URL is set, no server is started; the deployments are served to that API.

    Ctrl-C or SIGTERM stops all processes. Exit codes: 0 stopped, 1 a process failed, 2 wrong usage or configuration,
    4 already running.
    """
    settings = load(prefect_port=port)
    if settings.credentials is None:
        settings.address(), settings.key(), settings.network()
    api = prefect_api_url()
    where = api or f"http://127.0.0.1:{settings.prefect_port}"
    with ExitStack() as stack:
        ended = stack.enter_context(_signals())
        now = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            private(settings.prefect_home)
            stack.enter_context(
                lock(settings.prefect_home / "up.lock", f"gramhouse up at {where}", since=now, pause=time.sleep)
            )
            if api is None and not port_is_free(settings.prefect_port):
                message = f"Port {settings.prefect_port} is in use. Fix: choose another port with --port."
                raise SettingsError(message)
            _run(settings, api, ended)
        except Held as other:
            hint = f"kill {other.who.pid}" if other.who else "end that process"
            err.print(f"{FAIL} Already running: {clean(other)}. Stop it first: {hint}.")
            raise typer.Exit(ExitCode.BUSY) from None
        except ProcessError as error:
            err.print(f"{FAIL} {clean(error)}")
            raise typer.Exit(ExitCode.FAILED) from None
        except GivenUp:
            err.print("Stopped.")

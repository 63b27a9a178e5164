"""`gramhouse up`: the scheduled runs, with a Prefect server, until Ctrl-C."""

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from connectors.warehouse.storage.holder import hold, holder
from flows.cli.options import LogFormat, number
from flows.cli.signals import Stopped, run_until_signalled
from flows.cli.terminal import DONE, WARN, clean, err, row, show
from flows.config.environment import prefect_api_url
from flows.config.errors import SettingsError
from flows.config.settings import Settings, load
from flows.orchestration.processes import PREFECT_CLIENT, REPORT_PATH, import_prefect, local_prefect
from flows.reporting.progress import notices
from models.files import WarehouseBusy

# Seconds that runs wait while another one has the warehouse, unless the setting is set.
_BUSY_WAIT = 6 * 3600


def _greet(settings: Settings, api: str | None, names: Sequence[str], notes: Sequence[str]) -> None:
    here = f"http://127.0.0.1:{settings.prefect_port}"
    where = f"Prefect's UI is at {here}, its API at {here}/api."
    show(row(DONE, text=f"Serving to {api}: PREFECT_API_URL is set, so no server is started." if api else where))
    following = settings.next_runs(datetime.now(UTC))
    for name in names:
        due = following.get(name)
        show(clean(f"  {name:<9} {f'next {due:%a %Y-%m-%d %H:%M} {settings.time_zone}' if due else 'on request'}"))
    start = f"PREFECT_API_URL={api or f'{here}/api'} prefect deployment run sync/nightly"
    shown = "" if api else f", shown at {here}{REPORT_PATH}"
    show(
        f"Start one now in the UI, or in another terminal: [cyan]{clean(start)}[/]",
        f"Each run updates the report {clean(settings.report_file())}{shown}.",
        soft_wrap=True,
    )
    off = "Both schedules are off: nothing runs by itself. Fix: set GRAMHOUSE_NIGHTLY or GRAMHOUSE_DUE."
    for note in (*([] if following else [off]), *notes):
        show(row(WARN, text=note))
    show("Stop with Ctrl-C.")


def describe_environment(settings: Settings, api: str | None, *, as_json: bool = False) -> dict[str, str]:
    """Return the environment of this process, which flow runs inherit."""
    # Each run renews the report, even if the setting is not set.
    env = {**PREFECT_CLIENT, "PYTHONSAFEPATH": "1", "GRAMHOUSE_REPORT": str(settings.report_file())}
    if "busy_wait" not in settings.model_fields_set:
        env["GRAMHOUSE_BUSY_WAIT"] = str(_BUSY_WAIT)
    if api is None:
        address = settings.report_url or f"http://127.0.0.1:{settings.prefect_port}{REPORT_PATH}"
        env |= {**local_prefect(settings.prefect_home, settings.prefect_port), "GRAMHOUSE_REPORT_URL": address}
    if as_json:
        env["PREFECT_LOGGING_COLORS"] = "false"
        env["PREFECT_LOGGING_HANDLERS_CONSOLE_FORMATTER"] = "json"
    return env


def _check_key(settings: Settings) -> None:
    """Show what the service answers. A machine that restarts at night must come up, whatever that is."""
    from flows.cli.commands.doctor import check_line, find

    show(*map(check_line, find(settings, ["API"] if settings.credentials is None else [])))


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        raise SettingsError(f"Port {port} is in use. Fix: choose another port with --port.") from None


async def _run(settings: Settings, api: str | None, take_signals: Callable[[], None], *, as_json: bool) -> None:
    with ExitStack() as stack:
        listening = None if api else stack.enter_context(_listen(settings.prefect_port))
        import_prefect(describe_environment(settings, api, as_json=as_json))
        from flows.orchestration.flow_run import check_tracker
        from flows.orchestration.serving import serve

        # On a thread, because it runs an event loop of its own.
        await asyncio.to_thread(_check_key, settings)
        if listening is None:
            await check_tracker()
        else:
            from flows.orchestration.server import prefect_server

            with err.status("[dim]starting Prefect …[/]"):
                stack.enter_context(prefect_server(listening, settings.report_file()))
        await serve(settings, partial(_greet, settings, api), take_signals)


def up(
    *,
    port: Annotated[int | None, number(1, 65535)] = None,
    log_format: LogFormat = "text",
) -> None:
    """Start a Prefect server with its UI, and serve the deployments.

    If PREFECT_API_URL is set, no server is started; the deployments are served to that API.

    Ctrl-C or SIGTERM stops everything: flow runs, too, which are resumed after the next start. Exit codes: 0 stopped, 1
    Prefect's server failed, 2 wrong usage or configuration, 4 already running.

    Args:
        port: Port of the Prefect UI (GRAMHOUSE_PREFECT_PORT).
    """
    settings = load(prefect_port=port)
    if settings.credentials is None:
        settings.address(), settings.key(), settings.network()
    api = prefect_api_url()
    where = api or f"http://127.0.0.1:{settings.prefect_port}"
    now = datetime.now(UTC).isoformat(timespec="seconds")
    settings.prefect_home.mkdir(parents=True, exist_ok=True)
    # Prefect's database contains secrets and the key to them.
    settings.prefect_home.chmod(0o700)
    lock = settings.prefect_home / "up"
    if running := holder(lock):
        raise WarehouseBusy(f"{running} runs already. Fix: use it, or stop it first.")
    try:
        with hold(lock, f"gramhouse up at {where}", since=now, pause=time.sleep):
            run_until_signalled(partial(_run, settings, api, as_json=log_format == "json"), lambda: "")
    except Stopped:
        notices.info("Stopped.")

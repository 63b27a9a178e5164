"""Running a flow from the command line as a flow run of the configured Prefect API."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

from prefect.client.orchestration import get_client
from prefect.logging.handlers import PrefectConsoleHandler
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

from flows.config.errors import TrackerUnreachable
from flows.config.settings import prefect_api_url
from flows.engine.pipeline import RunReport
from flows.engine.run_context import Counters
from flows.reporting.words import Say


@dataclass(slots=True)
class Watcher:
    """Observes a flow run from outside.

    `begun` is called inside it, before any of its work; `say` with lines for a person. `ended` is the result of the
    body, also when Prefect fails. `typed` are settings from the command line that are not parameters of the flow.
    """

    counters: Counters
    begun: Callable[[], None]
    say: Say
    typed: Mapping[str, object] = field(default_factory=dict)
    ended: RunReport | BaseException | None = None


# No parameter of the flow, for Prefect would keep it.
watching: ContextVar[Watcher | None] = ContextVar("watching", default=None)

# Seconds; the shortest that Prefect allows. A run is taken for dead after six that did not come.
HEARTBEAT_EVERY = 30

_RUN_LOGGERS = ("prefect.flow_runs", "prefect.task_runs")


class _OnlyErrors(logging.Filter):
    """Passes Prefect's own errors only; the command line reports errors of runs, in one line without a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR and not record.name.startswith(_RUN_LOGGERS)


def quiet_console() -> None:
    """Keep Prefect's lines off the terminal: they go to its server, and the terminal has its own report."""
    # On the root logger's handler: every run resets a level, but not a filter.
    for handler in logging.getLogger().handlers:
        if isinstance(handler, PrefectConsoleHandler):
            handler.addFilter(_OnlyErrors())


async def check_tracker() -> None:
    """Call the health check of the configured Prefect API; raises TrackerUnreachable."""
    async with get_client() as client:
        failure = await client.api_healthcheck()
    if failure is not None:
        raise TrackerUnreachable(prefect_api_url() or "The Prefect API") from failure


async def tracked(call: Callable[[], Awaitable[object]], watcher: Watcher) -> RunReport:
    """Call a flow that returns its state; return the result of its body, or raise its error.

    Raises TrackerUnreachable when the Prefect API does not answer. If it fails during the run, one line
    reports that, and the result is the same.
    """
    quiet_console()
    await check_tracker()
    watching.set(watcher)
    try:
        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: HEARTBEAT_EVERY}):
            await call()
    except Exception as failure:
        # The warehouse holds the result, not Prefect: the run took place, though Prefect did not receive its end.
        if watcher.ended is None:
            raise
        reason = str(failure) or type(failure).__name__
        watcher.say(f"Prefect did not receive the result of the run ({reason}); the report below is correct.")
    if watcher.ended is None:
        message = "the flow run ended without a report"
        raise TypeError(message)
    if isinstance(watcher.ended, BaseException):
        raise watcher.ended
    return watcher.ended

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
    """Whoever watches from outside the flow run.

    `begun` is called inside it, before any of its work; `say` with lines for a person. `ended` is what the body came
    to, whatever becomes of Prefect. `typed` are settings from the command line that are no parameters of the flow.
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
    """Errors of Prefect's own; what befell the runs is said by us, in one line and without a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR and not record.name.startswith(_RUN_LOGGERS)


def quiet_console() -> None:
    """Keep Prefect's lines off the terminal: they go to its server, and the terminal has its own report."""
    # Its handler stands at the root logger, and a filter stays where a level would be set anew by every run.
    for handler in logging.getLogger().handlers:
        if isinstance(handler, PrefectConsoleHandler):
            handler.addFilter(_OnlyErrors())


async def check_tracker() -> None:
    """Ask the configured Prefect API for a sign of life; raises TrackerUnreachable."""
    async with get_client() as client:
        failure = await client.api_healthcheck()
    if failure is not None:
        raise TrackerUnreachable(prefect_api_url() or "The Prefect API") from failure


async def tracked(call: Callable[[], Awaitable[object]], watcher: Watcher) -> RunReport:
    """Call a flow, with its state for an answer; return what its body came to, and raise what that raised.

    Raises TrackerUnreachable when the Prefect API does not answer. If it goes away during the run, that is said, and
    the run ends as it would have ended.
    """
    quiet_console()
    await check_tracker()
    watching.set(watcher)
    try:
        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: HEARTBEAT_EVERY}):
            await call()
    except Exception as failure:
        # DuckDB is the truth about progress: the run was made, though Prefect could not be told how it ended.
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

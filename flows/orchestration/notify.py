"""Sends an artifact, events and progress of a run to Prefect. Errors of Prefect never fail the run."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from prefect.artifacts import acreate_markdown_artifact, acreate_progress_artifact, aupdate_progress_artifact
from prefect.events import emit_event
from prefect.exceptions import MissingContextError
from prefect.logging import get_run_logger

from flows.engine.retrying import Retry
from flows.reporting.artifact import markdown
from flows.reporting.events import Event, events, failure_event
from flows.reporting.pace import Pace
from flows.reporting.progress import Progress
from flows.reporting.report import sentence
from flows.reporting.run_report import RunReport
from models.clock import Clock

if TYPE_CHECKING:
    from uuid import UUID

PAGE = "gramhouse-run"
PROGRESS = "gramhouse-progress"

# Prefect's client retries for minutes if its server is down; a run that has ended does not wait that long.
_PATIENCE = 30.0
_EVERY = 5.0
_WHOLE = 100.0


def _warn(what: str, error: Exception) -> None:
    line = (
        f"Prefect did not receive {what} ({str(error) or type(error).__name__}); the run is recorded in the warehouse."
    )
    try:
        get_run_logger().warning("%s", line)
    except MissingContextError:
        logging.getLogger(__name__).warning("%s", line)


@asynccontextmanager
async def _tolerated(what: str) -> AsyncIterator[None]:
    """Limit the time of the block, and log an error in it instead of raising it: none of Prefect may fail the run."""
    try:
        async with asyncio.timeout(_PATIENCE):
            yield
    except Exception as error:  # noqa: BLE001 - whatever Prefect raises
        _warn(what, error)


def _emit(events: Iterable[Event]) -> None:
    for event in events:
        emit_event(event=event.name, resource=dict(event.labels), payload=dict(event.payload))


async def notify(report: RunReport, retry: Retry | None = None, *, report_url: str | None = None) -> None:
    """Send a run's page and its events to Prefect; to be called in its flow run. Raises nothing.

    `retry` is the next retry of the run, if any; `report_url` is the address of the HTML report.
    """
    async with _tolerated("the run's page"):
        # The events first: they are only queued, and cause the notifications.
        _emit(events(report, str(retry) if retry else None))
        page = markdown(report, report_url)
        await acreate_markdown_artifact(page, key=PAGE, description=sentence(report))


async def notify_failure(text: str) -> None:
    """Send the event that a run ended without a report; `text` is the reason, one line. Raises nothing."""
    async with _tolerated("the failure event"):
        _emit([failure_event(text)])


def share(progress: Progress) -> float:
    """Return the progress of a run in percent, relative to the accounts listed so far; 100 only after its end."""
    return min(_WHOLE * progress.accounts_done / max(progress.accounts, 1), _WHOLE - 1)


@asynccontextmanager
async def show_progress(progress: Progress, clock: Clock) -> AsyncIterator[None]:
    """Show the progress of the run in this block in Prefect. Errors of Prefect are not raised."""
    shown: UUID | None = None
    pace = Pace(clock)

    async def show(percent: float) -> None:
        nonlocal shown
        text = pace.line(progress)
        if shown is None:
            shown = await acreate_progress_artifact(percent, PROGRESS, text)
        else:
            await aupdate_progress_artifact(shown, percent, text)

    async def keep_showing() -> None:
        warned = False
        while True:
            try:
                await show(share(progress))
            except Exception as error:  # noqa: BLE001 - no error of Prefect may stop the run
                # Warn once: a server that comes back receives the later updates.
                if not warned:
                    _warn("the run's progress", error)
                warned = True
            await clock.sleep(_EVERY)

    moving = asyncio.create_task(keep_showing())
    try:
        yield
    finally:
        moving.cancel()
        await asyncio.gather(moving, return_exceptions=True)
    # The run is complete; a signal ends only the notifications.
    with suppress(asyncio.CancelledError):
        async with _tolerated("the run's progress"):
            await show(_WHOLE)

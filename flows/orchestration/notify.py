"""Sends an artifact and events of a run to Prefect. Errors of Prefect never fail the run."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prefect.artifacts import acreate_markdown_artifact
from prefect.events import emit_event

from connectors.warehouse.storage.errors import first_line
from flows.config.settings import load
from flows.engine.retrying import Retry
from flows.reporting.for_prefect import failure_event, list_events, markdown
from flows.reporting.message import title
from flows.reporting.progress import notices
from flows.reporting.run_report import RunReport

PAGE = "gramhouse-run"

# Prefect's client retries for minutes if its server is down; a run that has ended does not wait that long.
_PATIENCE = 30.0


@asynccontextmanager
async def _tolerated(what: str) -> AsyncIterator[None]:
    """Limit the time of the block, and say an error in it instead of raising it: none of Prefect may fail the run."""
    try:
        async with asyncio.timeout(_PATIENCE):
            yield
    except Exception as error:  # noqa: BLE001 - whatever Prefect raises
        why = first_line(error)
        notices.warning(f"Prefect did not receive {what} ({why}); the run is recorded in the warehouse.")


async def notify(report: RunReport, retry: Retry | None = None) -> None:
    """Send a run's events to Prefect, and its page if it is not retried; to be called in its flow run. Raises nothing.

    `retry` is the next retry of the run, if any.
    """
    async with _tolerated("the run's page"):
        # The events first: they are only queued, and cause the notifications.
        for event in list_events(report, str(retry) if retry else None):
            emit_event(**event)
        if retry is None:
            page = markdown(report, load().report_url)
            await acreate_markdown_artifact(page, key=PAGE, description=title(report))


async def notify_failure(text: str) -> None:
    """Send the event that a run ended without a report; `text` is the reason, one line. Raises nothing."""
    async with _tolerated("the failure event"):
        emit_event(**failure_event(text))

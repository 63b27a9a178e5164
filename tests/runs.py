"""Runs on a real warehouse against an API in this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from connectors.source.client import ApiClient
from flows.config.options import BackfillOptions, SyncOptions
from flows.config.run_request import RunRequest
from flows.config.settings import Settings
from flows.engine.resources import RunResources
from flows.engine.warehouse import open_warehouse
from flows.pipeline import run_sync
from flows.reporting.run_report import RunReport
from models.selection import Selection
from tests.api.listed import Feed, ListedApi
from tests.api.server import Api, ApiTransport
from tests.clocks import VirtualClock
from tests.operator import KEY, Operator

PAGE = 10
_IDS = count(1)


def request(folder: Path, *, selection: Selection | None = None, **changes: Any) -> RunRequest:  # noqa: ANN401 - settings and options
    """Return what a run is asked for: settings and options by name, and the `selection` of a backfill."""
    settings: dict[str, Any] = {"page_size": 2, "max_wait": 100.0, "concurrency": 4}
    settings |= {"warehouse": folder / "warehouse.duckdb", "snapshot": str(folder / "analytics.duckdb")}
    kind: type[SyncOptions | BackfillOptions] = SyncOptions if selection is None else BackfillOptions
    options = {name: getattr(selection, name) for name in kind.model_fields if hasattr(selection, name)}
    options |= {name: changes.pop(name) for name in list(changes) if name in kind.model_fields}
    return RunRequest(Settings(**(settings | changes)), kind(**options))


@asynccontextmanager
async def open_run_resources(folder: Path, api: Api, settings: Settings | None = None) -> AsyncIterator[RunResources]:
    """Open a real warehouse in a folder; yield the resources of a run on it."""
    client = ApiClient("http://127.0.0.1", SecretStr(KEY), clock=api.clock, transport=ApiTransport(api))
    async with open_warehouse(settings or request(folder).settings, "a test", api.clock) as warehouse:
        yield RunResources(client.send, warehouse, api.clock, lambda: 0.5, lambda: f"id-{next(_IDS)}")


async def synced(folder: Path, api: Api, **changes: Any) -> RunReport:  # noqa: ANN401 - as `request`
    """Run a sync on the warehouse in a folder."""
    asked = request(folder, **changes)
    async with open_run_resources(folder, api, asked.settings) as resources:
        return await run_sync(asked, resources)


class DailyRuns:
    """An API with a feed per account, a warehouse, and a run each day."""

    def __init__(self, folder: Path, *feeds: Feed) -> None:
        self.folder, self.clock, self.ask = folder, VirtualClock(), Operator(folder).ask
        self.service = ListedApi(len(feeds), clock=self.clock, feeds=dict(enumerate(feeds, 1)))
        self.cursors: list[str | None] = []

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def request(self, **changes: Any) -> RunRequest:  # noqa: ANN401 - as `request`
        return request(self.folder, **{"sync_mode": "incremental", "page_size": PAGE, "concurrency": 1, **changes})

    async def sync(self, *, days: float = 1, **changes: Any) -> RunReport:  # noqa: ANN401 - as `request`
        """Run a sync, then let `days` pass; `cursors` are those of the posts' pages of account 1 that it requested."""
        before = len(self.service.post_cursors())
        async with open_run_resources(self.folder, self.service) as resources:
            report = await run_sync(self.request(**changes), resources)
        self.cursors = self.service.post_cursors()[before:]
        self.clock.days(days)
        return report

    def grow(self) -> None:
        """Publish two posts of account 1."""
        for hours in (16, 8):
            self.service.feeds[1].post(self.now - timedelta(hours=hours))

    def shown(self) -> set[str]:
        return {media_id for (media_id,) in self.ask("SELECT media_id FROM media WHERE removed_at IS NULL")}

    def listed(self) -> set[str]:
        return {f"1-{number}" for number in self.service.feeds[1].posts}

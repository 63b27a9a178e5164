"""A fake API with feeds, a warehouse, and a run each day."""

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from flows.engine.concurrency import Slots
from flows.engine.run import RunResources
from flows.pipeline import run_sync
from flows.reporting.run_report import RunReport
from models.runs import OutcomeKind
from tests.clocks import VirtualClock
from tests.flows.fake_api import open_run_resources, request
from tests.flows.feeds import FakeFeedApi, Feed

PAGE = 10


class DailyRuns:
    """A fake API with a feed per account, a warehouse, and a run each day."""

    def __init__(self, folder: Path, *feeds: Feed) -> None:
        self.folder = folder
        self.clock = VirtualClock()
        self.service = FakeFeedApi(len(feeds), clock=self.clock, feeds=dict(enumerate(feeds, 1)))
        self.cursors: list[str | None] = []

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def resources(self) -> AbstractAsyncContextManager[RunResources]:
        """Open the resources of a run."""
        return open_run_resources(self.folder, self.service, slots=Slots(1))

    async def sync(self, *, days: float = 1, **changes: Any) -> RunReport:  # noqa: ANN401 - fields of RunRequest
        """Run a sync, then let `days` pass; `cursors` are those of the posts' pages of account 1 that it requested."""
        before = len(self.service.post_cursors())
        run_request = replace(request(self.folder), **{"mode": "incremental", "page_size": PAGE, **changes})
        async with self.resources() as resources:
            report = await run_sync(run_request, resources)
        self.cursors = self.service.post_cursors()[before:]
        self.clock.days(days)
        return report

    async def cut_short(self, *, after: int, **changes: Any) -> None:  # noqa: ANN401 - fields of RunRequest
        """Run a sync that is cancelled after `after` pages of posts."""
        run = asyncio.create_task(self.sync(**changes))
        left = [after]

        def failure(request: Any) -> None:  # noqa: ANN401 - a request
            left[0] -= dict(request.params).get("surface") == "posts"
            if left[0] < 0:
                run.cancel()

        self.service.failure = failure
        with pytest.raises(asyncio.CancelledError):
            await run
        self.service.failure = lambda _: None
        self.clock.days(0.1)

    def grow(self, posts: int = 2, account: int = 1) -> None:
        """Publish `posts` posts, spread over the last day."""
        for index in range(posts):
            self.service.feeds[account].post(self.now - timedelta(hours=24 - 24 * (index + 1) / (posts + 1)))

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(self.folder / "analytics.duckdb"), read_only=True) as db:
            return db.execute(query).fetchall()

    def likes(self) -> dict[str, int]:
        return dict(self.ask("SELECT media_id, like_count FROM media WHERE removed_at IS NULL"))

    def truth(self, account: int = 1) -> dict[str, int]:
        return {f"{account}-{post.number}": post.likes for post in self.service.feeds[account].listed()}


def kinds(report: RunReport) -> dict[OutcomeKind, int]:
    return dict(report.outcomes.kinds)

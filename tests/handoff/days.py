"""Snapshots of several days of the sandbox, on its own calendar, so that a chart by day has a day for each sync.

python -m tests.handoff.days FOLDER [--days 28]
"""

import argparse
import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import FIRST_DAY, SandboxSettings
from flows.config.settings import load
from flows.engine.resources import open_resources
from flows.engine.run_request import RunRequest
from flows.pipeline import run_sync
from tests.clocks import VirtualClock

FIRST = datetime.fromtimestamp(FIRST_DAY, UTC)


def snapshot_of(
    folder: Path,
    sandbox: Sandbox,
    days: Iterable[int],
    *,
    first: datetime = FIRST,
    before: Callable[[int], None] = lambda _: None,
    **settings: object,
) -> Path:
    """Sync at 00:15 of each day, after `before`, with these settings; return the last snapshot.

    `first` is when the sandbox's first day begins.
    """
    clock = VirtualClock()

    async def sync(url: str) -> None:
        files = {"warehouse": folder / "warehouse.duckdb", "snapshot": str(folder / "analytics.duckdb")}
        chosen = load(base_url=url, api_key="sandbox-demo-key", **files, **settings)
        async with open_resources(chosen, "test") as resources:
            await run_sync(RunRequest(chosen), replace(resources, clock=clock))

    with in_thread(sandbox) as url:
        for day in days:
            before(day)
            sandbox.day, clock.since = day, first + timedelta(days=day, minutes=15)
            asyncio.run(sync(url))
    return folder / "analytics.duckdb"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--days", type=int, default=28)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    snapshot_of(chosen.folder, Sandbox(SandboxSettings()), range(chosen.days))

"""Snapshots of several days of the sandbox, on its own calendar: a chart by day has a day for each sync.

python -m tests.handoff.days FOLDER [--days 28]
"""

import argparse
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from connectors.sandbox.data.calendar import FIRST_DAY
from connectors.sandbox.http.app import Sandbox
from connectors.sandbox.http.serve import in_thread
from connectors.sandbox.settings import SandboxSettings
from flows.cli.signals import run_until_signalled
from flows.config.settings import load
from flows.engine.pipeline import run_sync
from flows.engine.resources import build_request, open_resources


class Calendar:
    """A clock that stands at 02:15 of a day; nothing waits for it."""

    def __init__(self) -> None:
        self.day = 0

    def now(self) -> datetime:
        return datetime.fromtimestamp(FIRST_DAY, UTC) + timedelta(days=self.day, minutes=15)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


def snapshot_of(folder: Path, sandbox: Sandbox, days: Iterable[int]) -> Path:
    """Sync on each of the days; return the snapshot that the last one published."""
    clock = Calendar()

    async def sync(url: str) -> None:
        files = {"warehouse": folder / "warehouse.duckdb", "snapshot": folder / "analytics.duckdb"}
        settings = load(base_url=url, api_key="sandbox-demo-key", **files)
        async with open_resources(settings, "test") as resources:
            await run_sync(build_request(settings), replace(resources, clock=clock))

    with in_thread(sandbox) as url:
        for day in days:
            sandbox.day = clock.day = day
            run_until_signalled(sync(url))
    return folder / "analytics.duckdb"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--days", type=int, default=28)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    snapshot_of(chosen.folder, Sandbox(SandboxSettings()), range(chosen.days))

"""A snapshot of several nights, as analysts take it into their own tools."""

from pathlib import Path

import pytest

from connectors.sandbox.app import Sandbox
from connectors.sandbox.serve import in_thread
from connectors.sandbox.settings import SandboxSettings
from flows.cli.signalled import run_until_signalled
from flows.means import means, order
from flows.pipeline import run_once
from flows.settings import load


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("handoff")
    sandbox = Sandbox(SandboxSettings(accounts=8, posts=20))

    async def sync(url: str) -> None:
        settings = load(
            base_url=url,
            api_key="sandbox-demo-key",
            warehouse=folder / "warehouse.duckdb",
            snapshot=folder / "analytics.duckdb",
        )
        async with means(settings, "test") as at_hand:
            await run_once(order(settings), at_hand)

    with in_thread(sandbox) as url:
        for sandbox.night in range(3):
            run_until_signalled(sync(url))
    return folder / "analytics.duckdb"

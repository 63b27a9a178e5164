"""The options of incremental syncs, one mode at a time, and what `status` shows of them."""

import json
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest

from flows.cli.commands.status import report
from flows.config.settings import load
from flows.pipeline import run_sync
from tests.clocks import START, VirtualClock
from tests.flows.fake_api import Refusal, cursor_of, is_posts, open_run_resources, request
from tests.flows.feeds import FakeFeedApi, daily

pytestmark = pytest.mark.anyio


async def test_the_status_shows_the_age_of_scans_and_lists_gaps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    clock = VirtualClock()
    service = FakeFeedApi(2, clock=clock, feeds={1: daily(200), 2: daily(200)})
    seldom = timedelta(days=300)

    async def sync() -> None:
        async with open_run_resources(tmp_path, service) as resources:
            changed = replace(request(tmp_path), mode="incremental", full_refresh_every=seldom, page_size=10)
            await run_sync(changed, resources)
        clock.days(1)

    await sync()
    service.failure = lambda request: (
        Refusal(403, "api_forbidden") if is_posts(request, 2) and cursor_of(request) == "c20" else None
    )
    await sync()
    settings = load(snapshot=Path("analytics.duckdb"), warehouse=Path("warehouse.duckdb"))
    text = StringIO()
    with redirect_stdout(text):
        report(settings, START + timedelta(days=1, hours=4), as_json=True)
    found = json.loads(text.getvalue())
    [recent] = found["recent"]
    assert (recent["surface"], recent["accounts"]) == ("posts", 1)
    assert (recent["recent"], recent["complete"]) == (4 * 3600, 28 * 3600)
    [gap] = found["gaps"]
    assert (gap["ig_username"], gap["surface"], gap["reason"], gap["pages"]) == ("user_2", "posts", "api_forbidden", 2)
    text = StringIO()
    with redirect_stdout(text):
        report(settings, START + timedelta(days=1, hours=4))
    assert "posts of 1 account: oldest recent scan 4 h ago, oldest full scan 1 d 4 h ago" in text.getvalue()
    assert "! 1 scan ended early and left a gap, which the next scan reads (user_2)." in text.getvalue()

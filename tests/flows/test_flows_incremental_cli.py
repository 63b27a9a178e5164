"""What is typed for incremental syncs: one mode at a time, and estimates that ask the API for nothing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from flows.pipeline import run_once
from tests.flows.feeds import FeedService, NightClock, daily
from tests.flows.stage import order, staged
from tests.typed import Typed

pytestmark = pytest.mark.anyio


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Typed:
    monkeypatch.chdir(tmp_path)
    return Typed(monkeypatch, capsys)


def test_two_modes_at_once_are_refused_in_a_line(typed: Typed) -> None:
    code, out, err = typed("sync", "--incremental", "--full-refresh")
    assert (code, out) == (2, "")
    assert err.strip().endswith("--incremental and --full-refresh exclude each other: give one of them.")


def test_a_dry_run_before_the_first_sync_says_what_is_missing(typed: Typed) -> None:
    code, _, err = typed("sync", "--dry-run", "--snapshot", "analytics.duckdb")
    assert code == 1
    assert "There is no snapshot" in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("wrong", ["0", "-3", "many"])
def test_a_limit_of_requests_is_a_number_of_at_least_one(typed: Typed, wrong: str) -> None:
    code, _, err = typed("sync", "--max-requests", wrong)
    assert code == 2
    assert "--max-requests" in err


async def test_a_dry_run_shows_requests_by_reason(typed: Typed, tmp_path: Path) -> None:
    clock = NightClock()
    service = FeedService(2, clock=clock, feeds={1: daily(300), 2: daily(10)})
    async with staged(tmp_path, service, page_size=50) as means:
        await run_once(replace(order(tmp_path), mode="incremental"), means)
    asked = len(service.asked)
    here = ("--snapshot", "analytics.duckdb", "--page-size", "50")
    code, out, _ = typed("sync", "--full-refresh", "--dry-run", "--max-requests", "5", *here)
    assert code == 0
    assert "posts: full, as the mode says" in out
    assert "About 10 requests would be made; a full run would make 10." in out
    assert "--max-requests would defer about 5 of them." in out
    told = json.loads(typed("sync", "--incremental", "--dry-run", "--json", *here)[1])
    assert (told["mode"], told["full_requests"]) == ("incremental", 10)
    assert set(told["reasons"]) == {"catalogue", "stories", "few_pages", "full_due"}
    assert len(service.asked) == asked

"""Tidying up at a run's end: what cannot be tidied costs no snapshot."""

from datetime import timedelta
from pathlib import Path

import pytest

from connectors.warehouse.errors import WarehouseUnusable
from flows import keeping
from flows.keeping import Keeping, tidy
from flows.pipeline import run_once
from tests.flows.stage import NIGHT, Service, order, rows, staged

pytestmark = pytest.mark.anyio

YEAR = timedelta(days=365)


async def test_old_runs_are_forgotten_and_it_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    service = Service()
    async with staged(tmp_path, service) as means:
        for _ in range(3):
            await run_once(order(tmp_path), means)
            await service.clock.sleep(86_400)
        await tidy(Keeping(runs=timedelta(days=1)), means.warehouse, now=NIGHT + YEAR, say=said.append)
        assert await rows(means, "SELECT count(*) FROM core.runs") == [(1,)]
    assert said == ["Forgot 2 runs older than 1 day."]


async def test_without_a_word_everything_stays(tmp_path: Path) -> None:
    async with staged(tmp_path, Service()) as means:
        await run_once(order(tmp_path), means)
        await tidy(Keeping(), means.warehouse, now=NIGHT + YEAR, say=pytest.fail)
        assert await rows(means, "SELECT count(*) FROM core.runs") == [(1,)]


async def test_what_cannot_be_tidied_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        message = "out of memory"
        raise WarehouseUnusable(message)

    monkeypatch.setattr(keeping, "forget_runs", refuse)
    monkeypatch.setattr(keeping, "trim_archive", refuse)
    said: list[str] = []
    async with staged(tmp_path, Service()) as means:
        await tidy(Keeping(YEAR, tmp_path, YEAR), means.warehouse, now=NIGHT, say=said.append)
    assert said == ["No run could be forgotten: out of memory", "out of memory"]

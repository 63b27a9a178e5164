"""What counts as growth, on synthetic samples, and that a leak is measured; `make soak` runs the syncs."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak.growth import Limits, Sample, complaints, measured

LIMITS = Limits(warm_up=10, resident=5.0, resident_per_row=0.5, per_row=2.0, slack=100.0)
NAMES = frozenset({"warehouse.duckdb", "analytics.duckdb"})
Change = Callable[[Sample], Sample]


def quiet(run: int) -> Sample:
    noise = (run * 7919) % 40
    return Sample(run, 100_000 + noise, 10, 3, 1, 5000, 0, 3000, NAMES, 1000)


def later(**changes: object) -> Change:
    return lambda one: replace(one, **changes) if one.run > 50 else one  # type: ignore[arg-type]


def leaking(kilobytes: float) -> Change:
    return lambda one: replace(one, resident=one.resident + kilobytes * one.run)


def with_rows(rows_per_run: int, **changes: object) -> Change:
    return lambda one: replace(later(**changes)(one), rows=1000 + one.run * rows_per_run)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (leaking(4), []),
        (leaking(6), ["resident memory grows by 6.0 KB per run, and may by 5.0"]),
        (lambda one: with_rows(2)(leaking(6)(one)), []),
        (lambda one: leaking(500)(one) if one.run % 10 == 9 else one, []),
        (lambda one: leaking(-10_000)(one) if one.run <= 10 else one, []),
        (later(descriptors=20, threads=0, tasks=2), ["descriptors grew from 10 to 20", "tasks grew from 1 to 2"]),
        (later(threads=4), []),
        (later(threads=5), ["threads grew from 3 to 5"]),
        (later(names=NAMES | {"x.next"}), ["files were left over: x.next"]),
        (later(log=1), ["a log was left beside the warehouse"]),
        (later(warehouse=5101), ["the warehouse grew by 101 KB, and 100 KB are explained by its rows"]),
        (with_rows(2, warehouse=5300, snapshot=3300), []),
    ],
)
def test_only_growth_that_lasts_and_is_not_explained_is_noticed(change: Change, expected: list[str]) -> None:
    assert list(complaints([change(quiet(run)) for run in range(1, 101)], LIMITS)) == expected


def test_leaks_are_detected(tmp_path: Path) -> None:
    async def leak() -> tuple[Sample, Sample]:
        def look() -> Sample:
            return measured(1, tmp_path / "warehouse.duckdb", tmp_path / "analytics.duckdb")

        before, over = look(), threading.Event()
        thread = threading.Thread(target=over.wait)
        task = asyncio.create_task(asyncio.Event().wait())
        with (tmp_path / "left.open").open("w", encoding="utf-8"):
            thread.start()
            meanwhile = look()
        over.set()
        thread.join()
        task.cancel()
        return before, meanwhile

    before, meanwhile = asyncio.run(leak())
    assert (meanwhile.descriptors, meanwhile.threads, meanwhile.tasks) == (
        before.descriptors + 1, before.threads + 1, before.tasks + 1,
    )  # fmt: skip
    assert meanwhile.names == {"left.open"}

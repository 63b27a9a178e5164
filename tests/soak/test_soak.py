"""What counts as growth, on synthetic samples, and that a leak is measured; `make soak` runs the syncs."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak import measuring
from tests.soak.growth import Limits, complaints, slope
from tests.soak.samples import Files, Sample, Vitals

LIMITS = Limits(warm_up=10, resident=5.0, resident_per_row=0.5, per_row=2.0, slack=100.0)
NAMES = frozenset({"warehouse.duckdb", "analytics.duckdb"})
Change = Callable[[Sample], Sample]


def quiet(run: int) -> Sample:
    noise = (run * 7919) % 40
    return Sample(run, Vitals(100_000 + noise, 10, 3, 1), Files(5000, 0, 3000, NAMES), 1000, 0.5)


def message(change: Change) -> list[str]:
    return list(complaints([change(quiet(run)) for run in range(1, 101)], LIMITS))


def vitals(**changes: int) -> Change:
    def change(one: Sample) -> Sample:
        return replace(one, vitals=replace(one.vitals, **changes)) if one.run > 50 else one

    return change


def kept(**changes: object) -> Change:
    def change(one: Sample) -> Sample:
        return replace(one, files=replace(one.files, **changes)) if one.run > 50 else one  # type: ignore[arg-type]

    return change


def leaking(kilobytes: float) -> Change:
    return lambda one: replace(one, vitals=replace(one.vitals, resident=one.vitals.resident + kilobytes * one.run))


def with_rows(rows_per_run: int, **changes: object) -> Change:
    return lambda one: replace(kept(**changes)(one), rows=1000 + one.run * rows_per_run)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (leaking(4), []),
        (leaking(6), ["resident memory grows by 6.0 KB per run, and may by 5.0"]),
        (lambda one: with_rows(2)(leaking(6)(one)), []),
        (lambda one: leaking(500)(one) if one.run % 10 == 9 else one, []),
        (lambda one: leaking(-10_000)(one) if one.run <= 10 else one, []),
        (vitals(descriptors=20, threads=0, tasks=2), ["file descriptors grew from 10 to 20", "tasks grew from 1 to 2"]),
        (vitals(threads=4), []),
        (vitals(threads=5), ["threads grew from 3 to 5"]),
        (kept(names=NAMES | {"x.next"}), ["files were left over: x.next"]),
        (kept(log=1), ["a log was left beside the warehouse"]),
        (kept(warehouse=5101), ["the warehouse grew by 101 KB, and 100 KB are explained by its rows"]),
        (with_rows(2, warehouse=5300, snapshot=3300), []),
    ],
)
def test_only_growth_that_lasts_and_is_not_explained_is_noticed(change: Change, expected: list[str]) -> None:
    assert message(change) == expected


def test_a_line_needs_two_points() -> None:
    assert slope([(1, 1), (3, 2)]) == 0.5
    for points in ([], [(1.0, 1.0)], [(1.0, 1.0), (1.0, 2.0)]):
        with pytest.raises(ValueError, match="two points"):
            slope(points)


def test_leaks_are_detected(tmp_path: Path) -> None:
    asyncio.run(_leave_behind(tmp_path))


async def _leave_behind(folder: Path) -> None:
    before = measuring.vitals()
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    task = asyncio.create_task(asyncio.Event().wait())
    with (folder / "left.open").open("w", encoding="utf-8"):
        thread.start()
        meanwhile = measuring.vitals()
    over.set()
    thread.join()
    task.cancel()
    assert (meanwhile.descriptors, meanwhile.threads, meanwhile.tasks) == (
        before.descriptors + 1,
        before.threads + 1,
        before.tasks + 1,
    )

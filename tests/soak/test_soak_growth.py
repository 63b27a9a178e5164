"""What counts as growth, on synthetic samples."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.soak.growth import Limits, complaints, slope
from tests.soak.samples import Files, Sample, Vitals

LIMITS = Limits(warm_up=10, resident=5.0, resident_per_row=0.5, per_row=2.0, slack=100.0)
NAMES = frozenset({"warehouse.duckdb", "analytics.duckdb"})
FILES = (("warehouse", 5000), ("snapshot", 3000))
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


def temporarily(one: Sample) -> Sample:
    return leaking(500)(one) if one.run % 10 == 9 else one


def at_first(one: Sample) -> Sample:
    return leaking(-10_000)(one) if one.run <= 10 else one


def with_late_threads(late: int) -> Change:
    return lambda one: replace(one, vitals=replace(one.vitals, threads=3 + late * (one.run > 30)))


def with_rows(rows_per_run: int, **changes: object) -> Change:
    return lambda one: replace(kept(**changes)(one), rows=1000 + one.run * rows_per_run)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda one: one, []),
        (leaking(4), []),
        (leaking(6), ["resident memory grows by 6.0 KB per run, and may by 5.0"]),
        (lambda one: with_rows(2)(leaking(6)(one)), []),
        (lambda one: with_rows(2)(leaking(7)(one)), ["resident memory grows by 7.0 KB per run, and may by 6.0"]),
        (temporarily, []),
        (at_first, []),
        (vitals(descriptors=20, threads=0, tasks=0), ["file descriptors grew from 10 to 20"]),
        (vitals(tasks=2), ["tasks grew from 1 to 2"]),
        (with_late_threads(1), []),
        (with_late_threads(2), ["threads grew from 3 to 5"]),
        (kept(names=NAMES | {"x.next"}), ["files were left over: x.next"]),
        (kept(log=1), ["a log was left beside the warehouse"]),
        *((kept(**{name: before + 100}), []) for name, before in FILES),
        *(
            (kept(**{name: before + 101}), [f"the {name} grew by 101 KB, and 100 KB are explained by its rows"])
            for name, before in FILES
        ),
        *((with_rows(2, **{name: before + 300}), []) for name, before in FILES),
        (with_rows(-1, warehouse=5101), ["the warehouse grew by 101 KB, and 100 KB are explained by its rows"]),
    ],
)
def test_only_growth_that_lasts_and_is_not_explained_is_noticed(change: Change, expected: list[str]) -> None:
    assert message(change) == expected


def test_a_line_needs_two_points() -> None:
    assert slope([(1, 1), (3, 2)]) == 0.5
    for points in ([], [(1.0, 1.0)], [(1.0, 1.0), (1.0, 2.0)]):
        with pytest.raises(ValueError, match="two points"):
            slope(points)

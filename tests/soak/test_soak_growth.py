"""What counts as growth, on synthetic samples."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.soak.growth import Limits, complaints, slope, warm
from tests.soak.samples import Files, Sample, Vitals

LIMITS = Limits(warm_up=10, resident=5.0, per_row=2.0, slack=100.0)
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


def test_fluctuation_is_not_growth() -> None:
    assert message(lambda one: one) == []
    assert message(leaking(4)) == []


# The peaks in MB of every fourth of 200 processes, whose median slope after run 50 is 16.7 KB per run.
PEAKS = (
    239.6, 249.5, 236.5, 238.4, 262, 236.7, 239.8, 255.6, 243.4, 237.6, 245.4, 254.1, 245.8, 238, 235, 237.7,
    235.6, 245.5, 253, 249.4, 247, 236.6, 251.2, 248.9, 234.7, 248.4, 247.1, 237.8, 264.8, 238, 244.9, 251.9,
    249.5, 235.7, 269.2, 234.1, 249.3, 237.8, 237.9, 236.9, 243.8, 256.6, 238.4, 252, 245.3, 250.1, 253.7, 250.4,
    236.3, 236.8,
)  # fmt: skip


def of_processes(kilobytes: float, *, peaks: bool = True) -> list[str]:
    """Return the complaints about these processes, with a growth of so many kilobytes per run added."""
    runs = range(4, 201, 4)
    samples = [
        replace(quiet(run), vitals=Vitals(peak * 1024 + kilobytes * run)) for run, peak in zip(runs, PEAKS, strict=True)
    ]
    return list(complaints(samples, Limits(warm_up=50, peaks=peaks)))


def test_a_slope_within_the_noise_is_not_growth_and_a_steeper_one_is() -> None:
    assert of_processes(0) == []
    assert len(of_processes(100)) == 1


def test_noise_is_no_excuse_in_one_process() -> None:
    assert len(of_processes(0, peaks=False)) == 1


def test_memory_that_is_lost_run_by_run_is_noticed() -> None:
    (text,) = message(leaking(6))
    assert text.startswith("resident memory grows by 6.")


def test_memory_used_temporarily_by_a_few_runs_is_not_growth() -> None:
    assert message(lambda one: leaking(500)(one) if one.run % 10 == 9 else one) == []


def test_growth_during_the_first_runs_is_not_counted() -> None:
    assert message(lambda one: leaking(-10_000)(one) if one.run <= 10 else one) == []
    assert [one.run for one in warm([quiet(10), quiet(11)], LIMITS)] == [11]


@pytest.mark.parametrize(
    ("name", "words"), [("descriptors", "file descriptors"), ("threads", "threads"), ("tasks", "tasks")]
)
def test_a_count_that_rises_at_all_is_noticed(name: str, words: str) -> None:
    assert [text.split(" grew")[0] for text in message(vitals(**{name: 20}))] == [words]
    assert message(vitals(**{name: 0})) == []


def test_one_thread_may_start_late_and_no_second_one() -> None:
    before = quiet(1).vitals.threads
    assert message(lambda one: replace(one, vitals=replace(one.vitals, threads=before + (one.run > 30)))) == []
    assert message(lambda one: replace(one, vitals=replace(one.vitals, threads=before + 2 * (one.run > 30)))) == [
        f"threads grew from {before} to {before + 2}"
    ]


def test_remaining_files_in_the_folder_are_named() -> None:
    assert message(kept(names=NAMES | {".analytics.duckdb.next"})) == ["files were left over: .analytics.duckdb.next"]
    assert message(kept(log=1)) == ["a log was left beside the warehouse"]


@pytest.mark.parametrize("name", ["warehouse", "snapshot"])
def test_a_file_grows_with_its_rows_and_no_faster(name: str) -> None:
    before = getattr(quiet(1).files, name)
    assert message(kept(**{name: before + 100})) == []
    (text,) = message(kept(**{name: before + 101}))
    assert text == f"the {name} grew by 101 KB, and 100 KB are explained by its rows"
    assert message(lambda one: replace(kept(**{name: before + 300})(one), rows=1000 + one.run * 2)) == []


def test_removed_rows_do_not_explain_growth() -> None:
    assert len(message(lambda one: replace(kept(warehouse=5101)(one), rows=1000 - one.run))) == 1


def test_a_line_needs_two_points() -> None:
    assert slope([(1, 1), (3, 2)]) == 0.5
    for points in ([], [(1.0, 1.0)], [(1.0, 1.0), (1.0, 2.0)]):
        with pytest.raises(ValueError, match="two points"):
            slope(points)

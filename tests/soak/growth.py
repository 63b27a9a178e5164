"""Detects growth in samples; no IO."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from tests.soak.samples import Sample

Point = tuple[float, float]


@dataclass(frozen=True)
class Limits:
    """Limits of growth: resident memory in KB per run and per added row, files in KB per added row.

    A run over more rows needs more memory: a new process that syncs the warehouse of 1,000 runs (29,000 rows) holds
    5 MB more than one that begins a new warehouse. Without new data, it grows by 1.3 KB per run.

    The first `warm_up` runs are not looked at. DuckDB writes blocks of 256 KB, and leaves some of them free for the
    next run: `slack` is how many KB of them a file may have.
    """

    warm_up: int = 50
    resident: float = 4.0
    resident_per_row: float = 0.5
    per_row: float = 1.0
    slack: float = 2048.0


def slope(points: Sequence[Point]) -> float:
    """Return the median of the slopes between all pairs of points (Theil-Sen estimator), which is robust to outliers.

    Raises ValueError where all points are one above the other, or there are fewer than two.
    """
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2) if b[0] != a[0]]
    if not slopes:
        message = "a line needs two points"
        raise ValueError(message)
    return median(slopes)


def warm(samples: Sequence[Sample], limits: Limits) -> Sequence[Sample]:
    """Return the samples after the warm-up."""
    return [sample for sample in samples if sample.run > limits.warm_up]


def complaints(samples: Sequence[Sample], limits: Limits) -> Iterator[str]:
    """Return a line for each value that grew beyond its limit.

    Raises ValueError when there are fewer than two samples after the warm-up.
    """
    looked_at = warm(samples, limits)
    yield from _memory(looked_at, limits)
    yield from _counts(looked_at)
    yield from _files(looked_at, limits)


def _memory(samples: Sequence[Sample], limits: Limits) -> Iterator[str]:
    points = [(one.run, one.vitals.resident) for one in samples]
    per_run = slope(points)
    rows_per_run = slope([(one.run, one.rows) for one in samples])
    allowed = limits.resident + limits.resident_per_row * max(0.0, rows_per_run)
    if per_run > allowed:
        yield f"resident memory grows by {per_run:,.1f} KB per run, and may by {allowed:,.1f}"


# How many threads may start late: native libraries start some only when two of their tasks overlap.
_COUNTED: dict[str, tuple[Callable[[Sample], int], int]] = {
    "file descriptors": (lambda one: one.vitals.descriptors, 0),
    "threads": (lambda one: one.vitals.threads, 1),
    "tasks": (lambda one: one.vitals.tasks, 0),
}


def _counts(samples: Sequence[Sample]) -> Iterator[str]:
    for name, (count, late) in _COUNTED.items():
        first, last = count(samples[0]), max(map(count, samples))
        if last > first + late:
            yield f"{name} grew from {first} to {last}"


def _files(samples: Sequence[Sample], limits: Limits) -> Iterator[str]:
    first, last = samples[0], samples[-1]
    if left := last.files.names - first.files.names:
        yield f"files were left over: {', '.join(sorted(left))}"
    if any(one.files.log for one in samples):
        yield "a log was left beside the warehouse"
    explained = max(0, last.rows - first.rows) * limits.per_row + limits.slack
    for name, grown in (
        ("warehouse", last.files.warehouse - first.files.warehouse),
        ("snapshot", last.files.snapshot - first.files.snapshot),
    ):
        if grown > explained:
            yield f"the {name} grew by {grown:,.0f} KB, and {explained:,.0f} KB are explained by its rows"

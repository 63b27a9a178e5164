"""Measurements of single processes, and statistics over several of them; no IO."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median


@dataclass(frozen=True, slots=True)
class Sample:
    """One process: seconds, megabytes, and the server's side: pages, CPU seconds, refused requests."""

    wall: float
    cpu: float = 0.0
    peak_mb: float = 0.0
    pages: int = 0
    server_cpu: float = 0.0
    refused: int = 0
    too_early: int = 0
    requesting: float = 0.0


Samples = Mapping[str, Sequence[Sample]]

# They are called with the number of the round, from 0.
Candidates = dict[str, Callable[[int], Sample]]


def median_sample(samples: Sequence[Sample]) -> Sample:
    """Return the median of each field."""
    return Sample(*(median(getattr(sample, field.name) for sample in samples) for field in fields(Sample)))


def peak_memory(samples: Sequence[Sample]) -> float:
    """Return the peak memory of the worst round: the machine must have as much."""
    return max(sample.peak_mb for sample in samples)


def wall_ratio(samples: Samples, name: str, baseline: str) -> float:
    """Return the median wall time of one candidate, divided by that of another."""
    return median_sample(samples[name]).wall / median_sample(samples[baseline]).wall


def rotate(names: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Yield every name once per round, with the round's number; each round begins with the next name."""
    for round_number in range(rounds):
        first = round_number % len(names)
        for name in (*names[first:], *names[:first]):
            yield round_number, name


def measure_interleaved(
    candidates: Mapping[str, Callable[[int], Sample]], rounds: int, log: Callable[[str], object]
) -> dict[str, list[Sample]]:
    """Measure each candidate once per round."""
    samples: dict[str, list[Sample]] = {name: [] for name in candidates}
    for round_number, name in rotate(tuple(candidates), rounds):
        sample = candidates[name](round_number)
        samples[name].append(sample)
        log(f"round {round_number + 1}: {name} {sample.wall:.2f} s")
    return samples

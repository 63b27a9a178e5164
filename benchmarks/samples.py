"""What was measured of one process, and what several make together; no IO."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median


@dataclass(frozen=True, slots=True)
class Sample:
    """One process: seconds, megabytes, and what it cost the server: pages, CPU seconds, requests it refused."""

    wall: float
    cpu: float = 0.0
    peak_mb: float = 0.0
    pages: int = 0
    server_cpu: float = 0.0
    refused: int = 0
    too_early: int = 0


Samples = Mapping[str, Sequence[Sample]]


def middle(samples: Sequence[Sample]) -> Sample:
    """Return the medians, each of its own."""
    return Sample(*(median(getattr(sample, field.name) for sample in samples) for field in fields(Sample)))


def peak(samples: Sequence[Sample]) -> float:
    """Return the most memory that any round took: a peak is what a machine must have, not what it mostly needs."""
    return max(sample.peak_mb for sample in samples)


def ratio(samples: Samples, one: str, other: str) -> float:
    """Return how many times as long one took as another, by the medians."""
    return middle(samples[one]).wall / middle(samples[other]).wall


def turns(names: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Yield whose turn it is, round by round; every round begins with another, so that none is always first."""
    for turn in range(rounds):
        begin = turn % len(names)
        for name in (*names[begin:], *names[:begin]):
            yield turn, name


def interleaved(
    entrants: Mapping[str, Callable[[int], Sample]], rounds: int, show: Callable[[str], object] = lambda _: None
) -> dict[str, list[Sample]]:
    """Measure each entrant once a round; it is given the round's number, from 0."""
    found: dict[str, list[Sample]] = {name: [] for name in entrants}
    for turn, name in turns(tuple(entrants), rounds):
        sample = entrants[name](turn)
        found[name].append(sample)
        show(f"round {turn + 1}: {name} {sample.wall:.2f} s")
    return found

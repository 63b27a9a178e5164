"""Measurements between two runs: of the process, of its files, and of the number of rows."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Vitals:
    """Resident memory of the process in KB, and its numbers of descriptors, threads and tasks."""

    resident: float
    descriptors: int = 0
    threads: int = 0
    tasks: int = 0


@dataclass(frozen=True)
class Files:
    """Sizes in KB of the warehouse, its log and the snapshot, and the names of all files."""

    warehouse: float
    log: float
    snapshot: float
    names: frozenset[str]


@dataclass(frozen=True)
class Sample:
    """A measurement after a number of runs; `rows` are those of all tables, `seconds` the duration of the last run."""

    run: int
    vitals: Vitals
    files: Files
    rows: int
    seconds: float

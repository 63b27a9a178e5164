"""What is looked at between two runs: of the process, of its files, and of how much there is to keep."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Vitals:
    """Of a process between two runs: resident memory in KB, and how many descriptors, threads and tasks it has."""

    resident: float
    descriptors: int = 0
    threads: int = 0
    tasks: int = 0


@dataclass(frozen=True)
class Files:
    """Of the folder: sizes in KB of the warehouse, of the log beside it and of the snapshot, and all names."""

    warehouse: float
    log: float
    snapshot: float
    names: frozenset[str]


@dataclass(frozen=True)
class Sample:
    """A look after so many runs; `rows` are those of all the snapshot's tables, `seconds` what the run took."""

    run: int
    vitals: Vitals
    files: Files
    rows: int
    seconds: float

"""A scenario's result: a table for the terminal, and a JSON file to compare and plot."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.machine import machine
from benchmarks.pages import Style
from benchmarks.samples import Sample, Samples, middle, peak

RESULTS = Path(__file__).parent / "results"

_COLUMNS = ("wall s", "of the first", "cpu s", "peak MB", "pages", "server cpu s")


@dataclass(frozen=True, slots=True)
class Result:
    """What a scenario found: every sample by contender, the first the measure of the others, and its figures."""

    name: str
    what: str
    size: Mapping[str, object]
    samples: Samples
    figures: Mapping[str, float]


def size_name(items: int) -> str:
    """Name a number of items as people say it: 100k, 10m."""
    for unit, letter in ((1_000_000, "m"), (1_000, "k")):
        if items >= unit:
            whole, rest = divmod(items, unit)
            return f"{whole}{letter}" if not rest else f"{items / unit:.3g}{letter}"
    return str(items)


def result_name(scenario: str, items: int, style: Style) -> str:
    """Name a result: its scenario, the style of its items where that is not the usual one, its size."""
    return "-".join([scenario, *([style] if style is not Style.COMPACT else []), size_name(items)])


def _row(sample: Sample, first: Sample, most: float) -> tuple[str, ...]:
    return (
        f"{sample.wall:.3f}",
        f"{sample.wall / first.wall:.2f}",
        f"{sample.cpu:.2f}",
        f"{most:.0f}",
        f"{sample.pages:,.0f}",
        f"{sample.server_cpu:.2f}",
    )


def table(result: Result) -> str:
    """Lay a result out: medians by contender, and its figures below."""
    middles = {name: middle(some) for name, some in result.samples.items()}
    first = next(iter(middles.values()))
    rows: list[tuple[str, ...]] = [("", *_COLUMNS)]
    rows += [(name, *_row(sample, first, peak(result.samples[name]))) for name, sample in middles.items()]
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = [
        "  ".join(cell.rjust(width) if index else cell.ljust(width) for index, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    figures = [f"  {name} = {value:.3f}" for name, value in result.figures.items()]
    return "\n".join([f"{result.name}: {result.what}", *lines, *figures])


def _rounded(sample: Sample) -> dict[str, float]:
    return {field.name: round(getattr(sample, field.name), 4) for field in fields(sample)}


def document(result: Result, about: Mapping[str, object], at: datetime) -> dict[str, object]:
    """Return a result as it is written."""
    return {
        **asdict(result),
        "samples": {name: [_rounded(sample) for sample in some] for name, some in result.samples.items()},
        "figures": {name: round(value, 4) for name, value in result.figures.items()},
        "machine": dict(about),
        "at": at.isoformat(timespec="seconds"),
    }


def deliver(result: Result, folder: Path) -> None:
    """Print a result, and write it to `<its name>.json` in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    written = document(result, machine(), datetime.now(UTC))
    (folder / f"{result.name}.json").write_text(
        json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    print(table(result), flush=True)


def show(line: str) -> None:
    """Print how far a measurement is."""
    print(line, file=sys.stderr, flush=True)

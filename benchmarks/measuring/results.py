"""The result of a scenario: a table for the terminal, and a JSON file to compare and plot."""

import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks.api.synthetic_api import Style
from benchmarks.measuring.samples import Sample, Samples, median_sample, peak_memory

RESULTS = Path(__file__).parents[1] / "results"

_COLUMNS = ("wall s", "vs first", "cpu s", "peak MB", "pages", "server cpu s")
_VERSIONS = ("aiohttp", "duckdb", "httpx", "httpx-aiohttp", "pydantic", "sqlalchemy")


@dataclass(frozen=True, slots=True)
class Result:
    """Samples of each candidate, the first one being the baseline, and the figures computed from them."""

    name: str
    what: str
    size: Mapping[str, object]
    samples: Samples
    figures: Mapping[str, float]


def size_name(items: int) -> str:
    """Abbreviate a number of items: 100k, 10m."""
    for unit, letter in ((1_000_000, "m"), (1_000, "k")):
        if items >= unit:
            quotient, rest = divmod(items, unit)
            return f"{quotient}{letter}" if not rest else f"{items / unit:.3g}{letter}"
    return str(items)


def result_name(scenario: str, items: int, style: Style, distance: str = "") -> str:
    """Name a result after its scenario, the style of its items, its size and the server's distance, if not default."""
    style_name = [style] if style is not Style.COMPACT else []
    return "-".join([scenario, *style_name, size_name(items), *([distance] if distance else [])])


def _row(sample: Sample, first: Sample, peak_mb: float) -> tuple[str, ...]:
    return (
        f"{sample.wall:.3f}",
        f"{sample.wall / first.wall:.2f}",
        f"{sample.cpu:.2f}",
        f"{peak_mb:.0f}",
        f"{sample.pages:,.0f}",
        f"{sample.server_cpu:.2f}",
    )


def format_table(result: Result) -> str:
    """Format a result: the medians of each candidate, then the figures."""
    medians = {name: median_sample(samples) for name, samples in result.samples.items()}
    first = next(iter(medians.values()))
    rows: list[tuple[str, ...]] = [("", *_COLUMNS)]
    rows += [(name, *_row(sample, first, peak_memory(result.samples[name]))) for name, sample in medians.items()]
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = [
        "  ".join(cell.rjust(width) if index else cell.ljust(width) for index, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    figures = [f"  {name} = {value:.3f}" for name, value in result.figures.items()]
    return "\n".join([f"{result.name}: {result.what}", *lines, *figures])


def _rounded(sample: Sample) -> dict[str, float]:
    return {field.name: round(getattr(sample, field.name), 4) for field in fields(sample)}


def _cpu() -> str:
    """Return the processor's name."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model"}:
            return value.strip()
    return platform.machine()


def _machine() -> dict[str, object]:
    """Describe this machine; `load` is the load average of the last minute, which includes the benchmark."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _cpu(),
        "ram_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _VERSIONS},
        "load": round(os.getloadavg()[0], 1),
    }


def save_result(result: Result, folder: Path) -> None:
    """Print a result and write it to `NAME.json` in the folder."""
    document = {
        **asdict(result),
        "samples": {name: [_rounded(sample) for sample in samples] for name, samples in result.samples.items()},
        "figures": {name: round(value, 4) for name, value in result.figures.items()},
        "machine": _machine(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document, indent=1, ensure_ascii=False)
    (folder / f"{result.name}.json").write_text(f"{text}\n", encoding="utf-8")
    print(format_table(result), flush=True)


def log(line: str) -> None:
    """Print a progress message."""
    print(line, file=sys.stderr, flush=True)

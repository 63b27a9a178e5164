"""Commands that process a whole warehouse: publish, rebuild and compact, compared with a copy of the warehouse file.

A rebuild is also compared with decoding the items alone.

python -m benchmarks.warehouse.upkeep [--accounts 400] [--posts 250] [--rounds 3] [--folder KEEP] [--without-rebuild]
"""

import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.candidates.jobs import (
    Job,
    RunFolder,
    clean_environment,
    gramhouse,
    measure_job,
    measure_process,
    parse_report,
)
from benchmarks.candidates.saved_warehouse import copy_to, load_or_create
from benchmarks.measuring.options import create_parser, temporary_folder
from benchmarks.measuring.process import run
from benchmarks.measuring.results import Result, log, save_result, size_name
from benchmarks.measuring.samples import (
    Candidates,
    Sample,
    Samples,
    measure_interleaved,
    median_sample,
    peak_memory,
    wall_ratio,
)

_UNUSED_URL = "http://127.0.0.1:9"


def figures(samples: Samples) -> dict[str, float]:
    """Return the ratios; no IO."""
    ratios = {}
    for name in ("publish", "rebuild", "compact"):
        if name in samples:
            ratios[f"{name}_over_copy"] = wall_ratio(samples, name, "copy of the warehouse")
            ratios[f"{name}_seconds"] = median_sample(samples[name]).wall
            ratios[f"{name}_peak_mb"] = peak_memory(samples[name])
    if "decode" in samples:
        ratios["rebuild_over_decode"] = wall_ratio(samples, "rebuild", "decode")
    return ratios


def measure_copy(source: Path, folder: Path) -> Sample:
    """Measure a plain copy of a file; remove the copy."""
    target = folder / "copy"
    command = (sys.executable, "-m", "benchmarks.candidates.copy_file", str(source), str(target))
    sample = measure_process(Job(command, clean_environment(), folder))
    target.unlink()
    return sample


def measure_decode(run_folder: RunFolder) -> Sample:
    """Measure how long decoding takes within a process that decodes all items."""
    command = (sys.executable, "-m", "benchmarks.candidates.decode", str(run_folder.warehouse))
    result = run(command, clean_environment(), run_folder.path)
    return Sample(float(str(parse_report(result)["seconds"])), result.cpu, result.peak_mb)


def main() -> None:
    """Run the benchmark and save the result."""
    parser = create_parser(__doc__)
    parser.add_argument("--without-rebuild", action="store_true")
    args = parser.parse_args()
    with temporary_folder(args) as folder:
        run_folder: RunFolder = copy_to(
            load_or_create(args.folder or folder, args.accounts, args.posts), folder / "gramhouse"
        )

        def command(*arguments: str) -> Callable[[int], Sample]:
            return lambda _: measure_job(gramhouse(_UNUSED_URL, run_folder, args.in_flight, *arguments))

        candidates: Candidates = {
            "copy of the warehouse": lambda _: measure_copy(run_folder.warehouse, folder),
            "publish": command("publish"),
            "decode": lambda _: measure_decode(run_folder),
            "rebuild": command("rebuild"),
            "compact": command("compact"),
        }
        if args.without_rebuild:
            del candidates["rebuild"], candidates["decode"]
        samples = measure_interleaved(candidates, args.rounds, log)
        sizes = {path.stem: path.stat().st_size for path in (run_folder.warehouse, run_folder.snapshot)}
    items = args.accounts * args.posts
    size = {"accounts": args.accounts, "posts": args.posts, "items": items, "bytes": sizes}
    description = f"{items:,} items; the snapshot {sizes['analytics'] / 1e6:,.0f} MB"
    save_result(Result(f"upkeep-{size_name(items)}", description, size, samples, figures(samples)), args.results)


if __name__ == "__main__":
    main()

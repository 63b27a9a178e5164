"""The first sync into an empty warehouse, compared with the fetch alone, the simplest script and dlt.

    python -m benchmarks.sync.cold [--accounts 400] [--posts 250] [--style spaced|keys] [--rounds 3]
                              [--latency 0.015 | --fetch-times 3] [--without-dlt] [--folder KEEP]

With --folder, the warehouse of the last round is saved there, for the scenarios that start with a filled warehouse.
"""

import argparse
import shutil
from pathlib import Path

from benchmarks.api.server_process import ServerProcess, start_server
from benchmarks.candidates.jobs import RunFolder, dlt, measure_floor, measure_job, measure_script, measure_sync
from benchmarks.candidates.latency import set_latency
from benchmarks.candidates.saved_warehouse import save, saved_folder
from benchmarks.measuring.options import (
    add_dlt_options,
    add_slow_server_options,
    create_parser,
    distance_name,
    distance_text,
    dlt_python,
    size_of,
    temporary_folder,
)
from benchmarks.measuring.results import Result, log, result_name, save_result
from benchmarks.measuring.samples import (
    Candidates,
    Sample,
    Samples,
    measure_interleaved,
    median_sample,
    peak_memory,
    wall_ratio,
)


def figures(samples: Samples) -> dict[str, float]:
    """Return the ratios; no IO."""
    ours, fetched = median_sample(samples["gramhouse"]), median_sample(samples["floor"])
    ratios = {
        "wall_over_floor": wall_ratio(samples, "gramhouse", "floor"),
        "wall_over_script": wall_ratio(samples, "gramhouse", "script"),
        "cpu_over_floor": ours.cpu / fetched.cpu,
        "pages_over_floor": ours.pages / fetched.pages,
        "peak_mb": peak_memory(samples["gramhouse"]),
    }
    if dlt_samples := samples.get("dlt"):
        ratios["dlt_wall_over_ours"] = wall_ratio(samples, "dlt", "gramhouse")
        ratios["dlt_cpu_over_ours"] = median_sample(dlt_samples).cpu / ours.cpu
        ratios["peak_over_dlt"] = ratios["peak_mb"] / peak_memory(dlt_samples)
    return ratios


def measure(args: argparse.Namespace, folder: Path, server: ServerProcess, python: Path | None) -> Samples:
    """Measure every candidate; each run has a new folder, which is removed before the next run."""
    items: int = args.accounts * args.posts

    def sync(round_number: int) -> Sample:
        run_folder = RunFolder(folder / f"gramhouse-{round_number}")
        sample = measure_sync(server, run_folder.path, args.in_flight, items=args.accounts + items)
        if args.folder and round_number == args.rounds - 1:
            save(run_folder, saved_folder(args.folder, args.accounts, args.posts, args.style), sample)
        shutil.rmtree(run_folder.path, ignore_errors=True)
        return sample

    candidates: Candidates = {
        "floor": lambda _: measure_floor(server, folder, args.in_flight),
        "script": lambda _: measure_script(server, folder, args.in_flight),
        "gramhouse": sync,
    }
    if python is not None:

        def measure_dlt(round_number: int) -> Sample:
            dlt_folder = folder / f"dlt-{round_number}"
            sample = measure_job(dlt(server.url, dlt_folder, args.in_flight, python), server, items=items)
            shutil.rmtree(dlt_folder)
            return sample

        candidates["dlt"] = measure_dlt
    return measure_interleaved(candidates, args.rounds, log)


def main() -> None:
    """Run the benchmark and save the result."""
    parser = create_parser(__doc__)
    add_dlt_options(parser)
    add_slow_server_options(parser)
    args = parser.parse_args()
    python = dlt_python(args)
    with temporary_folder(args) as folder:
        set_latency(args, folder)
        with start_server(args.accounts, args.posts, style=args.style, latency=args.latency) as server:
            samples = measure(args, folder, server, python)
    shape = f"{args.accounts:,} accounts x {args.posts:,} posts"
    description = f"{shape} for the first time, {args.in_flight} in flight{distance_text(args)}"
    name = result_name("cold", args.accounts * args.posts, args.style, distance_name(args))
    save_result(Result(name, description, size_of(args), samples, figures(samples)), args.results)


if __name__ == "__main__":
    main()

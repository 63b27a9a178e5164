"""The time of `gramhouse report`, compared with a Python process that opens the same snapshot and counts its media.

python -m benchmarks.warehouse.report [--accounts 400] [--posts 250] [--rounds 3] [--folder KEEP]
"""

import sys

from benchmarks.candidates.jobs import Job, clean_environment, measure_process
from benchmarks.candidates.saved_warehouse import load_or_create
from benchmarks.measuring.options import create_parser, temporary_folder
from benchmarks.measuring.results import Result, log, save_result, size_name
from benchmarks.measuring.samples import Samples, measure_interleaved, median_sample, wall_ratio

_COUNT = "import duckdb, sys; duckdb.connect(sys.argv[1], read_only=True).sql('SELECT count(*) FROM media').fetchall()"


def figures(samples: Samples) -> dict[str, float]:
    """Return the seconds of the report, and their ratio to those of the count; no IO."""
    return {
        "report_seconds": median_sample(samples["report"]).wall,
        "report_over_count": wall_ratio(samples, "report", "count"),
    }


def main() -> None:
    """Run the benchmark and save the result."""
    args = create_parser(__doc__).parse_args()
    with temporary_folder(args) as folder:
        snapshot = str(load_or_create(args.folder or folder, args.accounts, args.posts).snapshot)
        page = str(folder / "report.html")
        commands = {
            "count": (sys.executable, "-c", _COUNT, snapshot),
            "report": (sys.executable, "-m", "flows.cli", "report", page, "--snapshot", snapshot),
        }
        jobs = {name: Job(command, clean_environment(), folder) for name, command in commands.items()}
        candidates = {name: lambda _, job=job: measure_process(job) for name, job in jobs.items()}
        samples = measure_interleaved(candidates, args.rounds, log)
    items = args.accounts * args.posts
    size = {"accounts": args.accounts, "posts": args.posts, "items": items}
    description = f"the report of {items:,} items, seconds of the whole process"
    save_result(Result(f"report-{size_name(items)}", description, size, samples, figures(samples)), args.results)


if __name__ == "__main__":
    main()

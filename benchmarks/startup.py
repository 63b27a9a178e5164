"""The overhead of a command: the help, status, and a sync of one account with nothing new.

    python -m benchmarks.startup [--rounds 9]

Compared with a Python process that does nothing and one that only imports Typer, which show the machine's speed.
"""

import sys
from collections.abc import Callable

from benchmarks.candidates import Job, RunFolder, clean_environment, gramhouse, measure_job
from benchmarks.options import create_parser, temporary_folder
from benchmarks.process import run
from benchmarks.results import Result, log, save_result
from benchmarks.samples import Sample, Samples, measure_interleaved, median_sample
from benchmarks.server_process import start_server

# `status` exits with 3 if stories were never scanned, as in this benchmark.
_EXPECTED_EXIT_CODES = {0, 3}


def figures(samples: Samples) -> dict[str, float]:
    """Return CPU seconds, also relative to a Python that imports Typer, and the wall time of the sync; no IO."""
    medians = {name: median_sample(rounds) for name, rounds in samples.items()}
    typer = medians["import typer"].cpu
    commands = ("help", "status", "sync")
    return {
        **{f"{name}_cpu_seconds": medians[name].cpu for name in commands},
        "sync_seconds": medians["sync"].wall,
        **{f"{name}_cpu_over_typer": medians[name].cpu / typer for name in commands},
    }


def _measure(job: Job) -> Callable[[int], Sample]:
    def candidate(_: int) -> Sample:
        result = run(job.command, job.env, job.folder)
        if result.exit_code not in _EXPECTED_EXIT_CODES:
            message = f"{' '.join(job.command)} exited with {result.exit_code}: {result.stderr[-2000:]}"
            raise RuntimeError(message)
        return Sample(result.wall, result.cpu, result.peak_mb)

    return candidate


def main() -> None:
    """Run the benchmark and save the result."""
    args = create_parser(__doc__, accounts=1, posts=60, rounds=9).parse_args()
    with temporary_folder(args) as folder, start_server(args.accounts, args.posts) as server:
        run_folder = RunFolder(folder)
        measure_job(gramhouse(server.url, run_folder, args.in_flight), server)
        python = {
            name: Job((sys.executable, "-c", name), clean_environment(), folder) for name in ("pass", "import typer")
        }
        commands = {
            "help": Job((sys.executable, "-m", "flows.cli", "--help"), clean_environment(), folder),
            "status": gramhouse(server.url, run_folder, args.in_flight, "status"),
            "sync": gramhouse(server.url, run_folder, args.in_flight),
        }
        samples = measure_interleaved(
            {name: _measure(job) for name, job in {**python, **commands}.items()}, args.rounds, log
        )
    items = args.accounts * args.posts
    size = {"accounts": args.accounts, "posts": args.posts, "items": items}
    description = "a Python that does nothing, one that imports Typer; the help, status, a sync with nothing new"
    save_result(Result("startup", description, size, samples, figures(samples)), args.results)


if __name__ == "__main__":
    main()

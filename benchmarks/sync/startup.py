"""The overhead of a command: the help, status, and a sync of one account with nothing new.

    python -m benchmarks.sync.startup [--rounds 9]

Compared with a Python process that does nothing and one that only imports Cyclopts, which show the machine's speed.
"""

import sys

from benchmarks.api.server_process import start_server
from benchmarks.candidates.jobs import Job, RunFolder, clean_environment, gramhouse, measure_process, measure_sync
from benchmarks.measuring.options import create_parser, size_of, temporary_folder
from benchmarks.measuring.results import Result, log, save_result
from benchmarks.measuring.samples import Samples, measure_interleaved, median_sample

# `status` exits with 3 if stories were never scanned, as in this benchmark.
_EXPECTED_EXIT_CODES = {0, 3}


def figures(samples: Samples) -> dict[str, float]:
    """Return CPU seconds, also relative to a Python that imports Cyclopts, and the wall time of the sync; no IO."""
    medians = {name: median_sample(rounds) for name, rounds in samples.items()}
    cyclopts = medians["import cyclopts"].cpu
    commands = ("help", "status", "sync")
    return {
        **{f"{name}_cpu_seconds": medians[name].cpu for name in commands},
        "sync_seconds": medians["sync"].wall,
        **{f"{name}_cpu_over_cyclopts": medians[name].cpu / cyclopts for name in commands},
    }


def main() -> None:
    """Run the benchmark and save the result."""
    args = create_parser(__doc__, accounts=1, posts=60, rounds=9).parse_args()
    with temporary_folder(args) as folder, start_server(args.accounts, args.posts) as server:
        run_folder = RunFolder(folder)
        measure_sync(server, folder, args.in_flight)
        python = {
            name: Job((sys.executable, "-c", name), clean_environment(), folder) for name in ("pass", "import cyclopts")
        }
        commands = {
            "help": Job((sys.executable, "-m", "flows.cli", "--help"), clean_environment(), folder),
            "status": gramhouse(server.url, run_folder, args.in_flight, "status"),
            "sync": gramhouse(server.url, run_folder, args.in_flight),
        }
        candidates = {
            name: lambda _, job=job: measure_process(job, _EXPECTED_EXIT_CODES)
            for name, job in {**python, **commands}.items()
        }
        samples = measure_interleaved(candidates, args.rounds, log)
    description = "a Python that does nothing, one that imports Cyclopts; the help, status, a sync with nothing new"
    save_result(Result("startup", description, size_of(args), samples, figures(samples)), args.results)


if __name__ == "__main__":
    main()

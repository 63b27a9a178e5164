"""What a command takes before and beside its work: the help, status, and a sync of one account with nothing new.

    python -m benchmarks.startup [--rounds 9]

Beside a Python that does nothing, and one that only imports Typer: both tell how fast the machine is today.
"""

import sys
from collections.abc import Callable

from benchmarks.beside import serving
from benchmarks.contenders import Home, Job, carry_out, gramhouse, plain_environment
from benchmarks.options import options, scratch
from benchmarks.process import run
from benchmarks.results import Result, deliver, show
from benchmarks.samples import Sample, Samples, interleaved, middle

# Accounts whose stories were never scanned, as here, make status exit with 3.
_WELL = {0, 3}


def figures(samples: Samples) -> dict[str, float]:
    """Return CPU seconds, the sync's wall time, and each CPU over that of a Python that imports Typer; no IO."""
    middles = {name: middle(some) for name, some in samples.items()}
    typer = middles["import typer"].cpu
    ours = ("help", "status", "sync")
    return {
        **{f"{name}_cpu_seconds": middles[name].cpu for name in ours},
        "sync_seconds": middles["sync"].wall,
        **{f"{name}_cpu_over_typer": middles[name].cpu / typer for name in ours},
    }


def _measured(job: Job) -> Callable[[int], Sample]:
    def entrant(_: int) -> Sample:
        ended = run(job.command, job.env, job.folder)
        if ended.code not in _WELL:
            message = f"{' '.join(job.command)} ended with {ended.code}: {ended.errors[-2000:]}"
            raise RuntimeError(message)
        return Sample(ended.wall, ended.cpu, ended.peak_mb)

    return entrant


def main() -> None:
    """Measure, and print it."""
    chosen = options(__doc__, accounts=1, posts=60, rounds=9).parse_args()
    with scratch(chosen) as folder, serving(chosen.accounts, chosen.posts) as server:
        home = Home(folder)
        carry_out(gramhouse(server.url, home, chosen.in_flight), server)
        python = {
            name: Job((sys.executable, "-c", name), plain_environment(), folder) for name in ("pass", "import typer")
        }
        typed = {
            "help": Job((sys.executable, "-m", "flows.cli", "--help"), plain_environment(), folder),
            "status": gramhouse(server.url, home, chosen.in_flight, "status"),
            "sync": gramhouse(server.url, home, chosen.in_flight),
        }
        samples = interleaved({name: _measured(job) for name, job in {**python, **typed}.items()}, chosen.rounds, show)
    items = chosen.accounts * chosen.posts
    size = {"accounts": chosen.accounts, "posts": chosen.posts, "items": items}
    what = "a Python that does nothing, one that imports Typer; the help, status, a sync with nothing new"
    deliver(Result("startup", what, size, samples, figures(samples)), chosen.results)


if __name__ == "__main__":
    main()

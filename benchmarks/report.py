"""What `gramhouse report` takes, beside a Python that opens the same snapshot and counts its media.

python -m benchmarks.report [--accounts 400] [--posts 250] [--rounds 3] [--folder KEPT]
"""

import sys
from functools import partial

from benchmarks.contenders import Job, plain_environment
from benchmarks.kept import prepared
from benchmarks.options import options, scratch
from benchmarks.process import run
from benchmarks.results import Result, deliver, show, size_name
from benchmarks.samples import Sample, Samples, interleaved, middle, ratio

_COUNT = "import duckdb, sys; duckdb.connect(sys.argv[1], read_only=True).sql('SELECT count(*) FROM media').fetchall()"


def figures(samples: Samples) -> dict[str, float]:
    """Return the report's seconds, and how many times as long it takes as the count; no IO."""
    return {"report_seconds": middle(samples["report"]).wall, "report_over_count": ratio(samples, "report", "count")}


def _measured(job: Job, _: int) -> Sample:
    ended = run(job.command, job.env, job.folder)
    if ended.code:
        message = f"{' '.join(job.command)} ended with {ended.code}: {ended.errors[-2000:]}"
        raise RuntimeError(message)
    return Sample(ended.wall, ended.cpu, ended.peak_mb)


def main() -> None:
    """Measure, and print it."""
    chosen = options(__doc__).parse_args()
    with scratch(chosen) as folder:
        snapshot = str(prepared(chosen.folder or folder, chosen.accounts, chosen.posts).snapshot)
        page = str(folder / "report.html")
        typed = {
            "count": (sys.executable, "-c", _COUNT, snapshot),
            "report": (sys.executable, "-m", "flows.cli", "report", page, "--snapshot", snapshot),
        }
        jobs = {name: Job(command, plain_environment(), folder) for name, command in typed.items()}
        samples = interleaved({name: partial(_measured, job) for name, job in jobs.items()}, chosen.rounds, show)
    items = chosen.accounts * chosen.posts
    size = {"accounts": chosen.accounts, "posts": chosen.posts, "items": items}
    what = f"the report of {items:,} items, seconds of the whole process"
    deliver(Result(f"report-{size_name(items)}", what, size, samples, figures(samples)), chosen.results)


if __name__ == "__main__":
    main()

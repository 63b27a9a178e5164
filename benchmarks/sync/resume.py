"""A sync that is killed halfway and run again: its total page requests, compared with an uninterrupted run.

    python -m benchmarks.sync.resume [--accounts 400] [--posts 250] [--rounds 3]

It is killed when the server has received half of the page requests. Both snapshots must have the same contents.
"""

import argparse
import json
import shutil
import time
from pathlib import Path

from benchmarks.api.server_process import ServerProcess, start_server
from benchmarks.api.synthetic_api import PAGE_SIZE
from benchmarks.candidates.jobs import Job, RunFolder, gramhouse, measure_job, measure_sync, parse_report
from benchmarks.measuring.options import create_parser, size_of, temporary_folder
from benchmarks.measuring.process import MeasuredProcess, run
from benchmarks.measuring.results import Result, log, save_result, size_name
from benchmarks.measuring.samples import Sample, Samples, measure_interleaved, median_sample

_POLL_INTERVAL = 0.005
_CONTENTS = """
SELECT
    count(*) AS items, count(DISTINCT (account_id, media_id)) AS ids,
    sum(hash(account_id, media_id, caption, like_count)) AS sum
FROM media WHERE removed_at IS NULL
"""


def snapshot_contents(run_folder: RunFolder) -> str:
    """Return a one-line summary of the snapshot: rows, distinct ids, and a checksum."""
    query = gramhouse("http://127.0.0.1:9", run_folder, 1, "query", _CONTENTS)
    result = run(query.command, query.env, query.folder)
    if result.exit_code:
        raise RuntimeError(result.stderr)
    return json.dumps(json.loads(result.stdout))


def kill_at(job: Job, server: ServerProcess, pages: int) -> None:
    """Start a job and kill it when the server has received `pages` more requests."""
    before = server.usage().requests
    with MeasuredProcess(job.command, job.env, job.folder) as process:
        while server.usage().requests - before < pages:
            if process.has_exited():
                parse_report(process.wait())
                raise RuntimeError("the process exited before it could be killed")
            time.sleep(_POLL_INTERVAL)
        process.kill()
        process.wait()


def figures(samples: Samples) -> dict[str, float]:
    """Return the ratios; that of the pages is from the worst round. No IO."""
    clean = median_sample(samples["clean"])
    return {
        "pages_over_clean": max(sample.pages for sample in samples["killed"]) / clean.pages,
        "wall_over_clean": median_sample(samples["killed"]).wall / clean.wall,
    }


def measure(args: argparse.Namespace, folder: Path, server: ServerProcess) -> Samples:
    """Measure uninterrupted and killed runs; for the latter, time and pages of both parts are added up."""
    contents: dict[str, str] = {}

    def check_and_remove(name: str, run_folder: RunFolder) -> None:
        contents[name] = snapshot_contents(run_folder)
        shutil.rmtree(run_folder.path)
        if len(set(contents.values())) > 1:
            raise RuntimeError(f"the snapshots differ: {contents}")

    def clean(round_number: int) -> Sample:
        run_folder = RunFolder(folder / f"clean-{round_number}")
        sample = measure_sync(server, run_folder.path, args.in_flight)
        check_and_remove("clean", run_folder)
        return sample

    def killed(round_number: int) -> Sample:
        run_folder = RunFolder(folder / f"killed-{round_number}")
        job = gramhouse(server.url, run_folder, args.in_flight)
        before, began = server.usage(), time.perf_counter()
        kill_at(job, server, args.pages // 2)
        second_part = measure_job(job, server)
        wall, cost = time.perf_counter() - began, server.usage() - before
        check_and_remove("killed", run_folder)
        return Sample(wall, second_part.cpu, second_part.peak_mb, cost.requests, cost.cpu_seconds)

    return measure_interleaved({"clean": clean, "killed": killed}, args.rounds, log)


def main() -> None:
    """Run the benchmark and save the result."""
    args = create_parser(__doc__).parse_args()
    args.pages = -(-args.accounts // PAGE_SIZE) + args.accounts * -(-args.posts // PAGE_SIZE)
    with temporary_folder(args) as folder, start_server(args.accounts, args.posts) as server:
        samples = measure(args, folder, server)
    description = f"{args.accounts:,} accounts x {args.posts:,} posts, killed halfway and run again"
    name = f"resume-{size_name(args.accounts * args.posts)}"
    save_result(Result(name, description, size_of(args), samples, figures(samples)), args.results)


if __name__ == "__main__":
    main()

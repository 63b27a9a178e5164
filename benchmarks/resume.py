"""A sync that is killed half-way and begun again: how many pages it asks for in all, against one clean run.

    python -m benchmarks.resume [--accounts 400] [--posts 250] [--rounds 3]

Killed when the server has been asked for half of the pages; what both left must be the same.
"""

import argparse
import json
import shutil
import time
from pathlib import Path

from benchmarks.beside import Beside, serving
from benchmarks.contenders import Home, Job, carry_out, gramhouse, report
from benchmarks.options import options, scratch
from benchmarks.process import Running, run
from benchmarks.results import Result, deliver, show, size_name
from benchmarks.samples import Sample, Samples, interleaved, middle

_LOOK_EVERY = 0.005
_LEFT = """
SELECT
    count(*) AS items, count(DISTINCT (account_id, media_id)) AS ids,
    sum(hash(account_id, media_id, caption, like_count)) AS sum
FROM media WHERE removed_at IS NULL
"""


def left(home: Home) -> str:
    """Ask the snapshot what the run left, in one line."""
    query = gramhouse("http://127.0.0.1:9", home, 1, "query", _LEFT)
    ended = run(query.command, query.env, query.folder)
    if ended.code:
        raise RuntimeError(ended.errors)
    return json.dumps(json.loads(ended.output))


def kill_at(job: Job, server: Beside, pages: int) -> None:
    """Start a job, and kill it when the server has been asked for so many pages more than before."""
    before = server.spent().requests
    with Running(job.command, job.env, job.folder) as running:
        while server.spent().requests - before < pages:
            if running.is_over():
                ended = running.wait()
                report(ended)
                message = "it had ended before it could be killed"
                raise RuntimeError(message)
            time.sleep(_LOOK_EVERY)
        running.kill()
        running.wait()


def figures(samples: Samples) -> dict[str, float]:
    """Return the ratios, the worst round's for the pages; no IO."""
    clean = middle(samples["clean"])
    return {
        "pages_over_clean": max(sample.pages for sample in samples["killed"]) / clean.pages,
        "wall_over_clean": middle(samples["killed"]).wall / clean.wall,
    }


def measure(chosen: argparse.Namespace, folder: Path, server: Beside) -> Samples:
    """Measure clean runs, and runs in two parts; the time of both parts counts, and every page that was asked for."""
    seen: dict[str, str] = {}

    def settle(who: str, home: Home) -> None:
        seen[who] = left(home)
        shutil.rmtree(home.folder)
        if len(set(seen.values())) > 1:
            message = f"what they left differs: {seen}"
            raise RuntimeError(message)

    def clean(turn: int) -> Sample:
        home = Home(folder / f"clean-{turn}")
        sample = carry_out(gramhouse(server.url, home, chosen.in_flight), server)
        settle("clean", home)
        return sample

    def killed(turn: int) -> Sample:
        home = Home(folder / f"killed-{turn}")
        job = gramhouse(server.url, home, chosen.in_flight)
        before, began = server.spent(), time.perf_counter()
        kill_at(job, server, chosen.pages // 2)
        second = carry_out(job, server)
        wall, cost = time.perf_counter() - began, server.spent() - before
        settle("killed", home)
        return Sample(wall, second.cpu, second.peak_mb, cost.requests, cost.cpu_seconds)

    return interleaved({"clean": clean, "killed": killed}, chosen.rounds, show)


def main() -> None:
    """Measure, and say it."""
    chosen = options(__doc__).parse_args()
    chosen.pages = -(-chosen.accounts // 50) + chosen.accounts * -(-chosen.posts // 50)
    with scratch(chosen) as folder, serving(chosen.accounts, chosen.posts) as server:
        samples = measure(chosen, folder, server)
    items = chosen.accounts * chosen.posts
    size = {"accounts": chosen.accounts, "posts": chosen.posts, "items": items, "in_flight": chosen.in_flight}
    what = f"{chosen.accounts:,} accounts x {chosen.posts:,} posts, killed half-way and run again"
    deliver(Result(f"resume-{size_name(items)}", what, size, samples, figures(samples)), chosen.results)


if __name__ == "__main__":
    main()

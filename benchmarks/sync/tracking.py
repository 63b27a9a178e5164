"""The overhead of tracking a sync with Prefect: the same sync, alternately tracked and direct, as whole processes.

    python -m benchmarks.sync.tracking [--accounts 1000] [--posts 20 100] [--rounds 3] [--json FILE]

For each number of posts per account, it starts the benchmarks' server, with spaced items of which a third are
carousels, and a Prefect server. Every round syncs into a new warehouse twice, once direct and once tracked. Prints the
times, and the difference and ratio of their medians.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.api.server_process import start_server
from benchmarks.api.synthetic_api import Style
from flows.config.settings import environment
from flows.orchestration.processes import free_port, local_prefect, prefect


def _sync(folder: Path, env: dict[str, str]) -> tuple[float, dict[str, object]]:
    files = {
        "GRAMHOUSE_WAREHOUSE": str(folder / "warehouse.duckdb"),
        "GRAMHOUSE_SNAPSHOT": str(folder / "analytics.duckdb"),
    }
    began = time.perf_counter()
    process = subprocess.run(
        [sys.executable, "-m", "flows.cli", "sync", "--surface", "posts", "--json"],
        env=environment(**env, **files),
        capture_output=True,
        text=True,
        check=True,
    )
    return time.perf_counter() - began, json.loads(process.stdout)


def measure(folder: Path, accounts: int, posts: int, rounds: int) -> dict[str, object]:
    """Return the seconds of direct and tracked syncs, for accounts with `posts` posts each."""
    home, port = folder / "prefect", free_port()
    with (
        start_server(accounts, posts, style=Style.SPACED) as api,
        prefect(home, port, folder / "report.html") as server,
    ):
        server.wait()
        direct = {"GRAMHOUSE_BASE_URL": api.url, "GRAMHOUSE_API_KEY": "any", "PREFECT_API_URL": ""}
        tracked = {**direct, **local_prefect(home, port)}
        times: dict[str, list[float]] = {"direct": [], "tracked": []}
        report: dict[str, object] = {}
        for round_number in range(rounds):
            for mode, env in (("direct", direct), ("tracked", tracked)):
                seconds, report = _sync(folder / f"{mode}-{round_number}", env)
                times[mode].append(round(seconds, 2))
    medians = {mode: median(seconds) for mode, seconds in times.items()}
    return {
        "accounts": accounts,
        "records": report["items"],
        "pages": report["pages"],
        "direct": times["direct"],
        "tracked": times["tracked"],
        "overhead_seconds": round(medians["tracked"] - medians["direct"], 2),
        "ratio": round(medians["tracked"] / medians["direct"], 2),
    }


def main() -> None:
    """Run the benchmark and print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accounts", type=int, default=1000)
    parser.add_argument("--posts", type=int, nargs="+", default=[20, 100])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    results = []
    for posts in args.posts:
        with tempfile.TemporaryDirectory() as folder:
            results.append(measure(Path(folder), args.accounts, posts, args.rounds))
        print(json.dumps(results[-1]))
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What it costs that Prefect tracks a sync: the same sync, tracked and direct in turn, as whole processes.

    python -m benchmarks.tracking [--accounts 1000] [--posts 20 100] [--rounds 3] [--json FILE]

For each number of posts an account has, a server of made-up accounts and a Prefect server run beside it; every round
syncs into a new warehouse twice, once each way. Prints the medians, and their difference: what tracking costs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from flows.config.settings import environment
from flows.orchestration.processes import PREFECT_QUIET, free_port, prefect, sandbox

_KEY = "sandbox-demo-key"


def _sync(folder: Path, env: dict[str, str]) -> tuple[float, dict[str, object]]:
    files = {
        "GRAMHOUSE_WAREHOUSE": str(folder / "warehouse.duckdb"),
        "GRAMHOUSE_SNAPSHOT": str(folder / "analytics.duckdb"),
    }
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", "sync", "--json"],
        env=environment(**env, **files),
        capture_output=True,
        text=True,
        check=True,
    )
    return time.perf_counter() - began, json.loads(done.stdout)


def measure(folder: Path, accounts: int, posts: int, rounds: int) -> dict[str, object]:
    """Return the seconds of both ways, for accounts with so many posts each."""
    api, tracker = free_port(), free_port()
    home = folder / "prefect"
    options = ("--accounts", str(accounts), "--posts", str(posts), "--stories", "0")
    with sandbox(folder, api, *options) as service, prefect(home, tracker) as server:
        service.wait()
        server.wait()
        direct = {"GRAMHOUSE_BASE_URL": f"http://127.0.0.1:{api}", "GRAMHOUSE_API_KEY": _KEY, "PREFECT_API_URL": ""}
        tracked = {
            **direct,
            **PREFECT_QUIET,
            "PREFECT_API_URL": f"http://127.0.0.1:{tracker}/api",
            "PREFECT_HOME": str(home.resolve()),
        }
        took: dict[str, list[float]] = {"direct": [], "tracked": []}
        report: dict[str, object] = {}
        for turn in range(rounds):
            for way, env in (("direct", direct), ("tracked", tracked)):
                seconds, report = _sync(folder / f"{way}-{turn}", env)
                took[way].append(round(seconds, 2))
    middle = {way: median(seconds) for way, seconds in took.items()}
    return {
        "accounts": accounts,
        "records": report["items"],
        "pages": report["pages"],
        "direct": took["direct"],
        "tracked": took["tracked"],
        "overhead_seconds": round(middle["tracked"] - middle["direct"], 2),
        "ratio": round(middle["tracked"] / middle["direct"], 2),
    }


def main() -> None:
    """Measure, and print a line for each size."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--accounts", type=int, default=1000)
    wanted.add_argument("--posts", type=int, nargs="+", default=[20, 100])
    wanted.add_argument("--rounds", type=int, default=3)
    wanted.add_argument("--json", type=Path)
    chosen = wanted.parse_args()
    found = []
    for posts in chosen.posts:
        with tempfile.TemporaryDirectory() as folder:
            found.append(measure(Path(folder), chosen.accounts, posts, chosen.rounds))
        print(json.dumps(found[-1]))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

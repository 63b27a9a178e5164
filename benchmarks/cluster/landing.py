"""How fast a run lands and merges what its workers return: the results of one sync, into a new warehouse.

    python -m benchmarks.cluster.landing [--accounts 1600] [--posts 250] [--rounds 3]

The baseline (`unpack`) only unpacks the results. Rows are media items; results of 16 MB of pages are in memory before,
and the time includes the last merge, but not the start of the process.
"""

import asyncio
import json
import resource
import sys
import time
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.api.synthetic_api import SyntheticApi, account_id
from benchmarks.candidates.jobs import clean_environment, parse_report
from benchmarks.measuring.options import create_parser, temporary_folder
from benchmarks.measuring.process import run
from benchmarks.measuring.results import Result, log, save_result, size_name
from benchmarks.measuring.samples import Sample, measure_interleaved, median_sample
from connectors.source.endpoints import ApiRequest, Response, account_scope, read_response
from connectors.source.rate_limit import RateLimitBudget
from connectors.source.request_rate import RequestRate
from flows.clock import SystemClock, new_id
from flows.engine.dask.task import Scanned, Task, scan_task
from flows.engine.paging import AccountScan
from flows.engine.run_request import RunRequest
from flows.engine.scan import Beginning, Start
from flows.engine.warehouse import open_warehouse
from models.media_page import DEFAULT_PATHS
from models.partition import media

_ACCOUNTS_OF_A_TASK = 128


async def _results(api: SyntheticApi) -> list[bytes]:
    clock = SystemClock()

    async def send(request: ApiRequest) -> Response:
        account = int(request.scope.partition(":")[2][:8], 16)
        body = api.media(account, dict(request.params).get("cursor"))
        return read_response(request, 200, {}, body or b"", now=clock.now())

    left = [_account(number) for number in range(api.accounts)]
    request, beginning = RunRequest(Path(), timedelta(hours=12), "bench"), Beginning("run", clock.now())
    results = []
    while left:
        some, left = left[:_ACCOUNTS_OF_A_TASK], left[_ACCOUNTS_OF_A_TASK:]
        task = Task(clock.now(), clock.monotonic(), request, beginning, DEFAULT_PATHS, 16, None, some, RequestRate())
        scanned = await scan_task(
            task, send, clock=clock, random=float, new_id=new_id, report=lambda *_: None, is_wanted=lambda: True
        )
        results.append(scanned.pack())
        left = [*(account for account, _ in scanned.left), *left]
    return results


def _account(number: int) -> AccountScan:
    listed_as = account_id(number)
    start = Start(media(listed_as, "posts"), None, listed_as=listed_as)
    return AccountScan(RateLimitBudget(account_scope(listed_as), 0.0), [start])


async def _measure_here(mode: str, accounts: int, posts: int, folder: Path) -> None:
    results = await _results(SyntheticApi(accounts, posts))
    async with open_warehouse(folder / "warehouse.duckdb", "a benchmark", now=datetime.now(UTC)) as warehouse:
        began, cpu_began = time.perf_counter(), time.process_time()
        for scanned in map(Scanned.unpack, results):
            if mode == "land" and isinstance(scanned, Scanned):
                await asyncio.gather(*(warehouse.land(commit) for commit in scanned.commits))
        if mode == "land":
            await warehouse.merge()
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"wall": wall, "cpu": cpu, "peak_mb": peak}) + "\n")


def _measure(mode: str, args: Namespace, folder: Path) -> Sample:
    folder.mkdir()
    sizes = (str(args.accounts), str(args.posts))
    command = (sys.executable, "-m", "benchmarks.cluster.landing", mode, *sizes, str(folder))
    usage = parse_report(run(command, clean_environment(), folder))
    wall, cpu, peak_mb = (float(str(usage[name])) for name in ("wall", "cpu", "peak_mb"))
    return Sample(wall, cpu, peak_mb)


def main() -> None:
    """Run the benchmark and save the result."""
    args = create_parser(__doc__, accounts=1600, posts=250).parse_args()
    rows = args.accounts * args.posts
    with temporary_folder(args) as folder:
        samples = measure_interleaved(
            {
                "land": lambda number: _measure("land", args, folder / f"land-{number}"),
                "unpack": lambda number: _measure("unpack", args, folder / f"unpack-{number}"),
            },
            args.rounds,
            log,
        )
    land = median_sample(samples["land"])
    figures = {"rows_a_second": rows / land.wall, "rows_a_cpu_second": rows / land.cpu, "peak_mb": land.peak_mb}
    description = f"{rows:,} items from results of tasks"
    save_result(Result(f"landing-{size_name(rows)}", description, {"items": rows}, samples, figures), args.results)


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] in ("land", "unpack"):
        asyncio.run(_measure_here(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])))
    else:
        main()

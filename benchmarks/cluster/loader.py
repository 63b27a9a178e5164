"""How fast the loader merges the logs of workers: the logs of one sync, into a new warehouse, in one process.

    python -m benchmarks.cluster.loader [--accounts 1600] [--posts 250] [--rounds 3]

The baseline (`read`) reads and decompresses the same logs without merging. Rows are media items; seconds and CPU are
those of loading, without the start of the process.
"""

import asyncio
import json
import resource
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree

from benchmarks.api.server_process import start_server
from benchmarks.candidates.jobs import Job, RunFolder, clean_environment, gramhouse, measure_job, parse_report
from benchmarks.cluster.workers import on_workers
from benchmarks.measuring.options import create_parser, temporary_folder
from benchmarks.measuring.process import run
from benchmarks.measuring.results import Result, log, save_result, size_name
from benchmarks.measuring.samples import Sample, measure_interleaved, median_sample
from connectors.store.opening import open_store
from connectors.warehouse.warehouse import open_warehouse
from flows.cluster.batch_log import BatchLog
from flows.cluster.batch_spec import batch_prefix
from flows.cluster.loader import Loader
from flows.engine.clock import SystemClock


async def _drain(store_url: str, folder: Path) -> None:
    async with open_warehouse(folder / "warehouse.duckdb", "a benchmark", now=datetime.now(UTC)) as warehouse:
        began, cpu_began = time.perf_counter(), time.process_time()
        loader = Loader(open_store(store_url, clock=SystemClock()), warehouse, 1, clock=SystemClock())
        await loader.drain({}, attempt="benchmark")
        _print_usage(began, cpu_began)


async def _read(store_url: str) -> None:
    began, cpu_began = time.perf_counter(), time.process_time()
    store, batch = open_store(store_url, clock=SystemClock()), 1
    while await store.get(f"{batch_prefix(1, batch)}/batch") is not None:
        async for _ in BatchLog(store, batch_prefix(1, batch)).read():
            pass
        batch += 1
    _print_usage(began, cpu_began)


def _print_usage(began: float, cpu_began: float) -> None:
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"wall": wall, "cpu": cpu, "peak_mb": peak}) + "\n")


def _measure(mode: str, store: Path, folder: Path) -> Sample:
    folder.mkdir()
    command = (sys.executable, "-m", "benchmarks.cluster.loader", mode, str(store), str(folder))
    usage = parse_report(run(command, clean_environment(), folder))
    wall, cpu, peak_mb = (float(str(usage[name])) for name in ("wall", "cpu", "peak_mb"))
    return Sample(wall, cpu, peak_mb)


def main() -> None:
    """Run the benchmark and save the result."""
    args = create_parser(__doc__, accounts=1600, posts=250).parse_args()
    rows = args.accounts * args.posts
    with temporary_folder(args) as folder, start_server(args.accounts, args.posts) as server:
        job: Job = on_workers(gramhouse(server.url, RunFolder(folder / "sync"), args.in_flight), 2)
        measure_job(job, server, items=args.accounts + rows)
        store = folder / "store"
        copytree(folder / "sync" / "store", store)
        samples = measure_interleaved(
            {
                "load": lambda round_number: _measure("load", store, folder / f"load-{round_number}"),
                "read": lambda round_number: _measure("read", store, folder / f"read-{round_number}"),
            },
            args.rounds,
            log,
        )
    load = median_sample(samples["load"])
    figures = {"rows_a_second": rows / load.wall, "rows_a_cpu_second": rows / load.cpu, "peak_mb": load.peak_mb}
    description = f"{rows:,} items from logs in a folder"
    save_result(Result(f"loader-{size_name(rows)}", description, {"items": rows}, samples, figures), args.results)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] in ("load", "read"):
        asyncio.run(_drain(sys.argv[2], Path(sys.argv[3])) if sys.argv[1] == "load" else _read(sys.argv[2]))
    else:
        main()

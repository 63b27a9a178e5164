"""How fast the loader merges what workers landed: logs of a whole sync, into a new warehouse, in one process.

    python -m benchmarks.loader [--accounts 400] [--posts 250] [--rounds 3]

The floor reads and decodes the same entries, and merges nothing. Rows are media items; seconds and CPU are those of the
loading alone, without the start of the process.
"""

import asyncio
import json
import resource
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree

from benchmarks.beside import serving
from benchmarks.cluster import on_workers
from benchmarks.contenders import Home, Job, carry_out, gramhouse, plain_environment, report
from benchmarks.options import options, scratch
from benchmarks.process import run
from benchmarks.results import Result, deliver, show, size_name
from benchmarks.samples import Sample, interleaved, middle
from connectors.store.opening import open_store
from connectors.warehouse.warehouse import open_warehouse
from flows.cluster.batch_log import BatchLog
from flows.cluster.batch_spec import batch_prefix
from flows.cluster.loader import Loader
from flows.engine.clock import SystemClock


async def _drain(store_url: str, folder: Path) -> None:
    async with open_warehouse(folder / "warehouse.duckdb", "a benchmark", now=datetime.now(UTC)) as warehouse:
        began, spent = time.perf_counter(), time.process_time()
        loader = Loader(open_store(store_url, clock=SystemClock()), warehouse, 1, clock=SystemClock())
        await loader.drain({}, attempt="benchmark")
        _say(began, spent)


async def _read(store_url: str) -> None:
    began, spent = time.perf_counter(), time.process_time()
    store, batch = open_store(store_url, clock=SystemClock()), 1
    while await store.get(f"{batch_prefix(1, batch)}/batch") is not None:
        async for _ in BatchLog(store, batch_prefix(1, batch)).read():
            pass
        batch += 1
    _say(began, spent)


def _say(began: float, spent: float) -> None:
    wall, cpu = time.perf_counter() - began, time.process_time() - spent
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"wall": wall, "cpu": cpu, "peak_mb": peak}) + "\n")


def _measured(what: str, store: Path, folder: Path) -> Sample:
    folder.mkdir()
    command = (sys.executable, "-m", "benchmarks.loader", what, str(store), str(folder))
    found = report(run(command, plain_environment(), folder))
    wall, cpu, peak_mb = (float(str(found[name])) for name in ("wall", "cpu", "peak_mb"))
    return Sample(wall, cpu, peak_mb)


def main() -> None:
    """Measure, and say it."""
    chosen = options(__doc__).parse_args()
    rows = chosen.accounts * chosen.posts
    with scratch(chosen) as folder, serving(chosen.accounts, chosen.posts) as server:
        job: Job = on_workers(gramhouse(server.url, Home(folder / "sync"), chosen.in_flight), 2)
        carry_out(job, server, items=chosen.accounts + rows)
        store = folder / "store"
        copytree(folder / "sync" / "store", store)
        samples = interleaved(
            {
                "load": lambda turn: _measured("load", store, folder / f"load-{turn}"),
                "read": lambda turn: _measured("read", store, folder / f"read-{turn}"),
            },
            chosen.rounds,
            show,
        )
    load = middle(samples["load"])
    found = {"rows_a_second": rows / load.wall, "rows_a_cpu_second": rows / load.cpu, "peak_mb": load.peak_mb}
    what = f"{rows:,} items from logs in a folder"
    deliver(Result(f"loader-{size_name(rows)}", what, {"items": rows}, samples, found), chosen.results)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] in ("load", "read"):
        asyncio.run(_drain(sys.argv[2], Path(sys.argv[3])) if sys.argv[1] == "load" else _read(sys.argv[2]))
    else:
        main()

"""CPU, memory and statements of the merge of one sync after another, compared with the least that it must do.

    python -m benchmarks.warehouse.merge [--accounts 400] [--posts 250] [--rounds 3]

The baseline (`floor`) decodes the same pages with msgspec and writes their items to one Parquet file. The syncs are a
first one, one that finds nothing new, one with every URL signed anew, and one with every count changed. Their pages are
in memory before; each merge has about 8 MB of them, as in a run.
"""

import gc
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.api.synthetic_api import Change, SyntheticApi, account_id
from benchmarks.candidates.jobs import clean_environment, parse_report
from benchmarks.measuring.options import create_parser, temporary_folder
from benchmarks.measuring.process import run
from benchmarks.measuring.results import Result, log, save_result, size_name
from benchmarks.measuring.samples import Sample, measure_interleaved, median_sample
from flows.process import prepare_process

_START = datetime(2026, 10, 1, tzinfo=UTC)
# What differs from the sync before, in this order.
_SYNCS = {"first": (Change.URLS, 0), "same": (Change.URLS, 0), "urls": (Change.URLS, 1), "counts": (Change.COUNTS, 1)}


def _bodies(accounts: int, posts: int, sync: str) -> Iterator[tuple[int, int, bytes, bool]]:
    """Yield number of the account, number of the page, body, and whether it is the last page."""
    change, day = _SYNCS[sync]
    api = SyntheticApi(accounts, posts, day=day, change=change)
    for account in range(accounts):
        for page, first in enumerate(range(0, posts, 50), 1):
            body = api.media(account, f"p{first}" if first else None)
            yield account, page, body or b"", first + 50 >= posts


def _landed(accounts: int, posts: int, number: int, sync: str) -> list[Any]:
    from models.checkpoint import (  # noqa: PLC0415
        Checkpoint,
        Landing,
        ScanState,
    )
    from models.feeds import media  # noqa: PLC0415

    first = number * 10_000_000
    start, landed = _START + timedelta(days=number), []
    for seq, (account, page, body, is_last) in enumerate(_bodies(accounts, posts, sync), first + 1):
        partition, scan_id = media(account_id(account), "posts"), f"{sync}-{account}"
        state = ScanState.COMPLETE if is_last else ScanState.SCANNING
        after = Checkpoint(partition, scan_id, sync, start, start, None, page, posts, state, began_seq=seq - page + 1)
        of_page = page, start + timedelta(milliseconds=seq - first), f"{sync}-{seq}", body
        landed.append(Landing(partition, sync, scan_id, *of_page, after, seq=seq, run_seq=number + 1))
    return landed


class _Counting:
    """A connection that counts statements, also BEGIN and COMMIT."""

    def __init__(self, db: Any) -> None:  # noqa: ANN401 - a connection
        self._db, self.statements = db, Counter[str]()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of the connection
        self.statements.update([name] if name in ("execute", "begin", "commit") else [])
        return getattr(self._db, name)


def _measured(work: Callable[[], object]) -> dict[str, float]:
    gc.collect()
    began, cpu_began = time.perf_counter(), time.process_time()
    work()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"wall": time.perf_counter() - began, "cpu": time.process_time() - cpu_began, "peak_mb": peak}


def _write_floor(accounts: int, posts: int, folder: Path) -> dict[str, float]:
    import msgspec  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    bodies = [body for _, _, body, _ in _bodies(accounts, posts, "first")]

    def work() -> None:
        items = [item for body in bodies for item in msgspec.json.decode(body)["items"]]
        pq.write_table(pa.Table.from_pylist(items), folder / "floor.parquet", compression="zstd")

    return _measured(work)


def _merge(accounts: int, posts: int, folder: Path) -> dict[str, float]:
    from connectors.warehouse.merge.merge import merge_batch  # noqa: PLC0415
    from connectors.warehouse.storage.connection import open_warehouse, transaction  # noqa: PLC0415
    from models.checkpoint import cut_batch  # noqa: PLC0415
    from models.mapping import BUILT_IN  # noqa: PLC0415

    report: dict[str, float] = {}
    with open_warehouse(folder / "warehouse.duckdb") as opened:
        db = _Counting(opened)

        def work(inbox: list[Any]) -> None:
            while batch := cut_batch(inbox):
                del inbox[: len(batch)]
                db.statements.clear()
                with transaction(db):  # type: ignore[arg-type]
                    merge_batch(db, batch, BUILT_IN, folder / "raw")  # type: ignore[arg-type]

        for number, sync in enumerate(_SYNCS):
            inbox = _landed(accounts, posts, number, sync)
            for name, value in _measured(lambda inbox=inbox: work(inbox)).items():  # type: ignore[misc]
                report[f"{sync}_{name}"] = value
            report[f"{sync}_statements"] = db.statements.total()
    return report


def _measure(mode: str, args: Any, folder: Path, reports: list[dict[str, float]]) -> Sample:  # noqa: ANN401
    folder.mkdir()
    command = (sys.executable, "-m", __spec__.name, mode, str(args.accounts), str(args.posts), str(folder))
    usage = {name: float(str(value)) for name, value in parse_report(run(command, clean_environment(), folder)).items()}
    reports.append(usage)
    prefix = "" if mode == "floor" else "first_"
    return Sample(usage[f"{prefix}wall"], usage[f"{prefix}cpu"], usage[f"{prefix}peak_mb"])


def main() -> None:
    """Run the benchmark and save the result."""
    args = create_parser(__doc__).parse_args()
    reports: dict[str, list[dict[str, float]]] = {"floor": [], "merge": []}
    with temporary_folder(args) as folder:
        candidates = {
            mode: lambda number, mode=mode: _measure(mode, args, folder / f"{mode}-{number}", reports[mode])
            for mode in reports
        }
        samples = measure_interleaved(candidates, args.rounds, log)
    floor = median_sample(samples["floor"]).cpu
    every = {name: sorted(one[name] for one in reports["merge"])[args.rounds // 2] for name in reports["merge"][0]}
    figures = {f"{sync}_over_floor": every[f"{sync}_cpu"] / floor for sync in _SYNCS}
    figures |= {name: value for name, value in every.items() if not name.endswith("_wall")}
    items = args.accounts * args.posts
    what = f"merges of {items:,} items, CPU seconds and peak memory (MB) so far, with all pages of a sync in memory"
    save_result(Result(f"merge-{size_name(items)}", what, {"items": items}, samples, figures), args.results)


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] in ("floor", "merge"):
        prepare_process()
        measure = _write_floor if sys.argv[1] == "floor" else _merge
        sys.stdout.write(json.dumps(measure(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))) + "\n")
    else:
        main()

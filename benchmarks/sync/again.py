"""Syncs again into a warehouse that has synced before, by what has changed since.

    python -m benchmarks.sync.again warm    [--accounts 400] [--posts 250] [--style spaced] [--rounds 3]
                                            [--latency 0.015 | --fetch-times 3]
    python -m benchmarks.sync.again nightly [... the same] [--with-dlt]
    python -m benchmarks.sync.again urls    [... the same]
    python -m benchmarks.sync.again counts  [... the same]

warm: nothing has changed. nightly: 1 % of the items have changed and 2 % are new. urls: every media URL has a new
signature. counts: every item's like_count has changed. Except in warm, each round is the next day, also for the fetch
alone. The simplest script writes a new file each day. dlt merges by primary key.
"""

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.api.server_process import ServerProcess, start_server
from benchmarks.api.synthetic_api import Change, SyntheticApi
from benchmarks.candidates.jobs import dlt, measure_floor, measure_job, measure_script, measure_sync
from benchmarks.candidates.latency import set_latency
from benchmarks.candidates.saved_warehouse import copy_to, load_or_create
from benchmarks.measuring.options import (
    add_dlt_options,
    add_slow_server_options,
    create_parser,
    distance_name,
    distance_text,
    dlt_python,
    size_of,
    temporary_folder,
)
from benchmarks.measuring.results import Result, log, result_name, save_result
from benchmarks.measuring.samples import Candidates, Sample, Samples, measure_interleaved
from benchmarks.sync.cold import figures

_CHANGE_TEXTS = {
    "warm": "nothing has changed",
    "nightly": "1 % changed, 2 % new",
    "urls": "every media URL signed again",
    "counts": "every like_count changed",
}
_CHANGES = {"urls": Change.URLS, "counts": Change.COUNTS}


def measure(args: argparse.Namespace, folder: Path, days: Sequence[int], python: Path | None) -> Samples:
    """Measure a round for each of the days, on a copy of the initial warehouse."""
    change = _CHANGES.get(args.kind, Change.DAILY)
    saved = load_or_create(args.folder or folder, args.accounts, args.posts, args.style)
    run_folder = copy_to(saved, folder / "gramhouse")

    def items(round_number: int) -> int:
        api = SyntheticApi(args.accounts, args.posts, days[round_number], change=change)
        return sum(map(api.post_count, range(args.accounts)))

    with ExitStack() as stack:
        servers: dict[int, ServerProcess] = {}
        for day in sorted({0, *days} if python else set(days)):
            server_of_day = start_server(
                args.accounts, args.posts, day=day, style=args.style, change=change, latency=args.latency
            )
            servers[day] = stack.enter_context(server_of_day)

        def fetch(round_number: int) -> Sample:
            return measure_floor(servers[days[round_number]], folder, args.in_flight)

        def sync(round_number: int) -> Sample:
            server, fetched = servers[days[round_number]], args.accounts + items(round_number)
            return measure_sync(server, run_folder.path, args.in_flight, items=fetched)

        def script(round_number: int) -> Sample:
            return measure_script(servers[days[round_number]], folder, args.in_flight)

        candidates: Candidates = {"floor": fetch, "script": script, "gramhouse": sync}
        if python is not None:
            dlt_folder = folder / "dlt"
            log("dlt's first day")
            measure_job(dlt(servers[0].url, dlt_folder, args.in_flight, python, "merge"), servers[0])

            def measure_dlt(round_number: int) -> Sample:
                server = servers[days[round_number]]
                job = dlt(server.url, dlt_folder, args.in_flight, python, "merge")
                return measure_job(job, server, items=items(round_number))

            candidates["dlt"] = measure_dlt
        return measure_interleaved(candidates, args.rounds, log)


def main() -> None:
    """Run the benchmark and save the result."""
    parser = create_parser(__doc__)
    add_dlt_options(parser)
    add_slow_server_options(parser)
    parser.add_argument("kind", choices=tuple(_CHANGE_TEXTS))
    parser.add_argument("--with-dlt", action="store_true", help="warm and nightly only")
    args = parser.parse_args()
    python = dlt_python(args) if args.with_dlt and args.kind in {"warm", "nightly"} else None
    days = [0] * args.rounds if args.kind == "warm" else list(range(1, args.rounds + 1))
    with temporary_folder(args) as folder:
        set_latency(args, folder)
        samples = measure(args, folder, days, python)
    shape = f"{args.accounts:,} accounts x {args.posts:,} posts"
    description = f"{shape} again, {_CHANGE_TEXTS[args.kind]}, {args.in_flight} in flight{distance_text(args)}"
    name = result_name(args.kind, args.accounts * args.posts, args.style, distance_name(args))
    save_result(Result(name, description, size_of(args), samples, figures(samples)), args.results)


if __name__ == "__main__":
    main()

"""Scans on Dask workers of this machine, against one process.

    python -m benchmarks.cluster.workers [--accounts 200] [--posts 250] [--latency 0.05] [--per-second N]
                                         [--workers 1 2 4]

Each worker keeps `--in-flight` requests in flight, and so does the one process, so more workers send more requests at
once. The time includes the start of the cluster. `even` is two workers with half of the requests each: its difference
from the one process is the overhead of scheduler, workers and results.
"""

from functools import partial

from benchmarks.api.server_process import start_server
from benchmarks.candidates.jobs import measure_floor, measure_sync
from benchmarks.measuring.options import add_latency_option, create_parser, distance_text, size_of, temporary_folder
from benchmarks.measuring.results import Result, log, save_result, size_name
from benchmarks.measuring.samples import Candidates, Sample, Samples, measure_interleaved, wall_ratio


def figures(samples: Samples) -> dict[str, float]:
    """Return each wall time divided by that of one process; no IO."""
    return {f"{name}_over_local": wall_ratio(samples, name, "local") for name in samples if name != "local"}


def main() -> None:
    """Run the benchmark and save the result."""
    parser = create_parser(__doc__, accounts=200, posts=250, rounds=3)
    add_latency_option(parser, 0.05)
    parser.add_argument("--per-second", type=int, help="requests per second allowed for each account")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    args = parser.parse_args()
    accounts, posts, in_flight = args.accounts, args.posts, args.in_flight
    items = accounts + accounts * posts
    with (
        temporary_folder(args) as folder,
        start_server(accounts, posts, latency=args.latency, per_second=args.per_second) as server,
    ):

        def sync(name: str, workers: int, requests: int, round_number: int) -> Sample:
            settings = {"GRAMHOUSE_WORKERS": str(workers)} if workers else None
            return measure_sync(server, folder / f"{name}-{round_number}", requests, items=items, settings=settings)

        candidates: Candidates = {
            "local": partial(sync, "local", 0, in_flight),
            "even": partial(sync, "even", 2, in_flight // 2),
        }
        if args.per_second is None:
            candidates["floor"] = lambda _: measure_floor(server, folder, in_flight)
        for workers in args.workers:
            name = f"workers_{workers}"
            candidates[name] = partial(sync, name, workers, in_flight)
        samples = measure_interleaved(candidates, args.rounds, log)
    limited = "" if args.per_second is None else f", each account limited to {args.per_second} requests a second"
    description = f"{accounts:,} accounts x {posts:,} posts{distance_text(args)}{limited}, {in_flight} a worker"
    name = f"cluster-{size_name(items)}-{args.latency * 1000:.0f}ms" + ("-limited" if limited else "")
    save_result(Result(name, description, size_of(args), samples, figures(samples)), args.results)


if __name__ == "__main__":
    main()

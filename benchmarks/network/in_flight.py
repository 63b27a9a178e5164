"""The same sync with 1, 4, 16 and 64 accounts in flight, from a server with latency.

python -m benchmarks.network.in_flight [--accounts 100] [--posts 250] [--latency 0.01] [--concurrency 1 4 16 64]
"""

from collections.abc import Sequence
from functools import partial

from benchmarks.api.server_process import start_server
from benchmarks.candidates.jobs import measure_floor, measure_sync
from benchmarks.measuring.options import add_latency_option, create_parser, temporary_folder
from benchmarks.measuring.results import Result, log, save_result, size_name
from benchmarks.measuring.samples import Candidates, Sample, Samples, measure_interleaved, median_sample, wall_ratio


def figures(samples: Samples, levels: Sequence[int]) -> dict[str, float]:
    """Return the ratio and the wall time for each number of accounts in flight; no IO."""
    ratios = {
        f"{level}_wall_over_floor": wall_ratio(samples, f"{level}: gramhouse", f"{level}: floor") for level in levels
    }
    return ratios | {f"{level}_wall_seconds": median_sample(samples[f"{level}: gramhouse"]).wall for level in levels}


def main() -> None:
    """Run the benchmark and save the result."""
    parser = create_parser(__doc__, accounts=100)
    add_latency_option(parser, 0.01)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 16, 64], help="accounts in flight")
    args = parser.parse_args()
    accounts, posts = args.accounts, args.posts
    items = accounts * posts
    with temporary_folder(args) as folder, start_server(accounts, posts, latency=args.latency) as server:

        def fetch(level: int, _: int) -> Sample:
            return measure_floor(server, folder, level)

        def sync(level: int, round_number: int) -> Sample:
            return measure_sync(server, folder / f"{level}-{round_number}", level, items=accounts + items)

        candidates: Candidates = {}
        for level in args.concurrency:
            candidates[f"{level}: floor"] = partial(fetch, level)
            candidates[f"{level}: gramhouse"] = partial(sync, level)
        samples = measure_interleaved(candidates, args.rounds, log)
    size = {"accounts": accounts, "posts": posts, "items": items, "latency": args.latency}
    description = f"{accounts:,} accounts x {posts:,} posts, {args.latency * 1000:.0f} ms away, by accounts in flight"
    save_result(
        Result(f"in_flight-{size_name(items)}", description, size, samples, figures(samples, args.concurrency)),
        args.results,
    )


if __name__ == "__main__":
    main()

"""A sync from a server with latency, compared with the time that latency alone costs.

    python -m benchmarks.network.distance [--accounts 40] [--posts 200] [--latency 0.05] [--in-flight 16]

The lower bound is the longest chain of pages, because each page contains the cursor of the next, or all pages divided
by the requests in flight, whichever is longer. The start-up is added to it: a sync without accounts and latency.
"""

from benchmarks.api.server_process import start_server
from benchmarks.api.synthetic_api import PAGE_SIZE
from benchmarks.candidates.jobs import measure_floor, measure_sync
from benchmarks.measuring.options import add_latency_option, create_parser, distance_text, size_of, temporary_folder
from benchmarks.measuring.results import Result, log, save_result, size_name
from benchmarks.measuring.samples import Samples, measure_interleaved, median_sample, wall_ratio


def bound(accounts: int, posts: int, in_flight: int, latency: float) -> float:
    """Return the lower bound in seconds; no IO."""
    catalogue, scan = max(1, -(-accounts // PAGE_SIZE)), max(1, -(-posts // PAGE_SIZE))
    # The scan of the last account begins when the last page of the catalogue has arrived.
    chain = catalogue + scan if accounts else catalogue
    return max(chain, (catalogue + accounts * scan) / in_flight) * latency


def figures(samples: Samples, seconds: float) -> dict[str, float]:
    """Return the ratios, given the bound; no IO."""
    start_up = median_sample(samples["empty"]).wall
    return {
        "bound_seconds": seconds,
        "start_up_seconds": start_up,
        "wall_over_bound": median_sample(samples["gramhouse"]).wall / (seconds + start_up),
        "wall_over_floor": wall_ratio(samples, "gramhouse", "floor"),
    }


def main() -> None:
    """Run the benchmark and save the result."""
    parser = create_parser(__doc__, accounts=40, posts=200, rounds=5)
    add_latency_option(parser, 0.05)
    args = parser.parse_args()
    accounts, posts, latency, in_flight = args.accounts, args.posts, args.latency, args.in_flight
    with (
        temporary_folder(args) as folder,
        start_server(accounts, posts, latency=latency) as server,
        # Without an account, a sync is partial.
        start_server(1, 1) as empty_server,
    ):
        samples = measure_interleaved(
            {
                "floor": lambda _: measure_floor(server, folder, in_flight),
                "gramhouse": lambda round_number: measure_sync(
                    server, folder / f"latency-{round_number}", in_flight, items=accounts + accounts * posts
                ),
                "empty": lambda round_number: measure_sync(empty_server, folder / f"empty-{round_number}", in_flight),
            },
            args.rounds,
            log,
        )
    description = f"{accounts:,} accounts x {posts:,} posts{distance_text(args)}, {in_flight} in flight"
    ratios = figures(samples, bound(accounts, posts, in_flight, latency))
    name = f"distance-{size_name(accounts * posts)}"
    save_result(Result(name, description, size_of(args), samples, ratios), args.results)


if __name__ == "__main__":
    main()

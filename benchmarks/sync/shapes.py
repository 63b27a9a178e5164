"""The same number of items in few large accounts and in many small ones, and one very large account.

    python -m benchmarks.sync.shapes [--items 200000] [--large 2500] [--small 20] [--one 100000] [--rounds 3]
                                   [--style spaced] [--latency 0.015 | --fetch-times 3]

A page of a small account contains fewer items, so the cost of a page is compared. The pages of the one account can only
be requested one after the other, also by the fetch alone.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

from benchmarks.api.server_process import ServerProcess, start_server
from benchmarks.candidates.jobs import measure_floor, measure_sync
from benchmarks.candidates.latency import set_latency
from benchmarks.measuring.options import (
    add_slow_server_options,
    create_parser,
    distance_name,
    distance_text,
    temporary_folder,
)
from benchmarks.measuring.results import Result, log, result_name, save_result
from benchmarks.measuring.samples import (
    Candidates,
    Sample,
    Samples,
    measure_interleaved,
    median_sample,
    peak_memory,
    wall_ratio,
)


def shapes(items: int, large: int, small: int, one: int) -> dict[str, tuple[int, int]]:
    """Return the number of accounts, and of posts in each, for every shape; no IO."""
    return {"few large": (items // large, large), "many small": (items // small, small), "one": (1, one)}


def figures(samples: Samples, names: Mapping[str, object]) -> dict[str, float]:
    """Return the cost of a page in each shape, and the ratios; no IO."""
    ratios = {}
    for name in names:
        short = name.replace(" ", "_")
        sample = median_sample(samples[f"{name}: gramhouse"])
        ratios[f"{short}_page_us"] = sample.wall / sample.pages * 1e6
        ratios[f"{short}_wall_over_floor"] = wall_ratio(samples, f"{name}: gramhouse", f"{name}: floor")
        ratios[f"{short}_peak_mb"] = peak_memory(samples[f"{name}: gramhouse"])
    ratios["small_page_over_large"] = ratios["many_small_page_us"] / ratios["few_large_page_us"]
    return ratios


def main() -> None:
    """Run the benchmark and save the result."""
    parser = create_parser(__doc__)
    add_slow_server_options(parser)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--large", type=int, default=2500, help="posts per large account")
    parser.add_argument("--small", type=int, default=20, help="posts per small account")
    parser.add_argument("--one", type=int, default=100_000, help="posts of the one account")
    args = parser.parse_args()
    sizes = shapes(args.items, args.large, args.small, args.one)
    candidates: Candidates = {}
    with temporary_folder(args) as folder, ExitStack() as stack:
        set_latency(args, folder)

        def fetch(server: ServerProcess, _: int) -> Sample:
            return measure_floor(server, folder, args.in_flight)

        def sync(server: ServerProcess, name: str, items: int, round_number: int) -> Sample:
            return measure_sync(server, folder / f"{name}-{round_number}", args.in_flight, items=items)

        for name, (accounts, posts) in sizes.items():
            server = stack.enter_context(start_server(accounts, posts, style=args.style, latency=args.latency))
            candidates[f"{name}: floor"] = partial(fetch, server)
            candidates[f"{name}: gramhouse"] = partial(sync, server, name, accounts + accounts * posts)
        samples = measure_interleaved(candidates, args.rounds, log)
    size = {"shapes": sizes, "items": args.items, "in_flight": args.in_flight, "latency": args.latency}
    description = "; ".join(f"{name}: {accounts:,} x {posts:,}" for name, (accounts, posts) in sizes.items())
    name = result_name("shapes", args.items, args.style, distance_name(args))
    save_result(Result(name, description + distance_text(args), size, samples, figures(samples, sizes)), args.results)


if __name__ == "__main__":
    main()

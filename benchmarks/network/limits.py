"""A server with a rate limit for each account: is a request sent too early, and what do the waits cost.

    python -m benchmarks.network.limits [--accounts 40] [--posts 2500] [--per-second 10] [--rounds 3]

The server responds with 429 and `Retry-After: 1` if an account's pages are requested more than `--per-second` times in
a second, and counts requests that come before that wait is over. Other accounts must not wait meanwhile.
"""

from functools import partial

from benchmarks.api.server_process import ServerProcess, start_server
from benchmarks.api.synthetic_api import PAGE_SIZE
from benchmarks.candidates.jobs import RunFolder, gramhouse, measure_job
from benchmarks.measuring.options import create_parser, temporary_folder
from benchmarks.measuring.results import Result, log, save_result, size_name
from benchmarks.measuring.samples import Sample, Samples, measure_interleaved, median_sample


def bound(posts: int, per_second: int) -> float:
    """Return the total wait of one account in seconds; all accounts wait at the same time. No IO."""
    pages = max(1, -(-posts // PAGE_SIZE))
    return float(-(-pages // per_second) - 1)


def figures(samples: Samples, seconds: float) -> dict[str, float]:
    """Return the ratios, given the bound; no IO."""
    limited, unlimited = samples["limited"], samples["unlimited"]
    return {
        "too_early": max(sample.too_early for sample in limited),
        "refused": median_sample(limited).refused,
        "bound_seconds": seconds,
        "wall_over_bound": median_sample(limited).wall / (seconds + median_sample(unlimited).wall),
        "cpu_over_unlimited": median_sample(limited).cpu / median_sample(unlimited).cpu,
    }


def main() -> None:
    """Run the benchmark and save the result."""
    parser = create_parser(__doc__, accounts=40, posts=2500)
    parser.add_argument("--per-second", type=int, default=10)
    args = parser.parse_args()
    accounts, posts = args.accounts, args.posts
    items = accounts * posts
    with (
        temporary_folder(args) as folder,
        start_server(accounts, posts) as unlimited,
        start_server(accounts, posts, per_second=args.per_second) as limited,
    ):

        def sync(name: str, server: ServerProcess, round_number: int) -> Sample:
            job = gramhouse(server.url, RunFolder(folder / f"{name}-{round_number}"), args.in_flight)
            return measure_job(job, server, items=accounts + items)

        candidates = {
            name: partial(sync, name, server) for name, server in (("unlimited", unlimited), ("limited", limited))
        }
        samples = measure_interleaved(candidates, args.rounds, log)
    size = {"accounts": accounts, "posts": posts, "items": items, "per_second": args.per_second}
    description = f"{accounts:,} accounts x {posts:,} posts, at most {args.per_second} pages of each per second"
    ratios = figures(samples, bound(posts, args.per_second))
    save_result(Result(f"limits-{size_name(items)}", description, size, samples, ratios), args.results)


if __name__ == "__main__":
    main()

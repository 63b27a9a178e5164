"""Servers with a rate limit for each account, or for the whole key: what is refused, and what do the waits cost.

    python -m benchmarks.network.limits [--accounts 40] [--posts 2500] [--per-second 10] [--rounds 3]
    python -m benchmarks.network.limits --key [--accounts 60] [--posts 250] [--per-second 60] [--rounds 3]

Without `--key` the server responds with 429 and `Retry-After: 1` if the pages of an account are requested more than
`--per-second` times in a second, and counts requests that come before that wait is over. Other accounts must not wait
meanwhile.

With `--key` it has a token bucket for all requests, of `--per-second` and a burst of 10, like gateways in front of an
API. Beyond it, one server responds with 429 without Retry-After, the other one with 503 and `Retry-After: 2`.
"""

from contextlib import ExitStack
from functools import partial

from benchmarks.api.server import BURST
from benchmarks.api.server_process import ServerProcess, start_server
from benchmarks.api.synthetic_api import PAGE_SIZE
from benchmarks.candidates.jobs import measure_sync
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


def key_figures(samples: Samples, per_second: int) -> dict[str, float]:
    """Return the share of refused requests, and the time from the first to the last request, over the bound; no IO."""
    pages = median_sample(samples["unlimited"]).pages
    found = {"bound_seconds": (pages - BURST) / per_second}
    for status in ("429", "503"):
        limited = median_sample(samples[status])
        found[f"{status}_refused_share"] = limited.refused / (limited.pages - limited.refused)
        found[f"{status}_seconds_over_bound"] = limited.requesting / found["bound_seconds"]
    return found


def main() -> None:
    """Run the benchmark and save the result."""
    parser = create_parser(__doc__)
    parser.add_argument("--per-second", type=int)
    parser.add_argument("--key", action="store_true", help="limit all requests together")
    parser.set_defaults(accounts=None, posts=None)
    args = parser.parse_args()
    defaults = (60, 250, 60) if args.key else (40, 2500, 10)
    given = (args.accounts, args.posts, args.per_second)
    accounts, posts, per_second = (one or default for one, default in zip(given, defaults, strict=True))
    items = accounts * posts
    servers = {"unlimited": start_server(accounts, posts)}
    if args.key:
        for status in (429, 503):
            servers[str(status)] = start_server(accounts, posts, key_per_second=per_second, key_status=status)
    else:
        servers["limited"] = start_server(accounts, posts, per_second=per_second)
    with temporary_folder(args) as folder, ExitStack() as stack:

        def sync(name: str, server: ServerProcess, round_number: int) -> Sample:
            return measure_sync(server, folder / f"{name}-{round_number}", args.in_flight, items=accounts + items)

        candidates = {name: partial(sync, name, stack.enter_context(server)) for name, server in servers.items()}
        samples = measure_interleaved(candidates, args.rounds, log)
    size = {"accounts": accounts, "posts": posts, "items": items, "per_second": per_second}
    of_what = "all" if args.key else "each"
    description = f"{accounts:,} accounts x {posts:,} posts, at most {per_second} pages of {of_what} per second"
    ratios = key_figures(samples, per_second) if args.key else figures(samples, bound(posts, per_second))
    name = f"{'key-limit' if args.key else 'limits'}-{size_name(items)}"
    save_result(Result(name, description, size, samples, ratios), args.results)


if __name__ == "__main__":
    main()

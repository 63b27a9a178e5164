"""A server some way off: a sync against what the way alone costs.

    python -m benchmarks.distance [--accounts 40] [--posts 200] [--latency 0.05] [--in-flight 16]

No sync can be faster than the longest chain of pages, each of which names the next, nor than all pages through so many
places. To that comes the start-up: a sync of a service without accounts, which is not far away.
"""

from benchmarks.beside import serving
from benchmarks.contenders import Home, carry_out, floor, gramhouse
from benchmarks.options import options, scratch
from benchmarks.pages import PAGE
from benchmarks.results import Result, deliver, show, size_name
from benchmarks.samples import Samples, interleaved, middle, ratio


def bound(accounts: int, posts: int, in_flight: int, latency: float) -> float:
    """Return the seconds that the way alone costs; no IO."""
    catalogue, scan = max(1, -(-accounts // PAGE)), max(1, -(-posts // PAGE))
    # The last account is scanned when its page of the catalogue has come.
    chain = catalogue + scan if accounts else catalogue
    return max(chain, (catalogue + accounts * scan) / in_flight) * latency


def figures(samples: Samples, seconds: float) -> dict[str, float]:
    """Return the ratios, given the bound; no IO."""
    start_up = middle(samples["empty"]).wall
    return {
        "bound_seconds": seconds,
        "start_up_seconds": start_up,
        "wall_over_bound": middle(samples["gramhouse"]).wall / (seconds + start_up),
        "wall_over_floor": ratio(samples, "gramhouse", "floor"),
    }


def main() -> None:
    """Measure, and say it."""
    wanted = options(__doc__, accounts=40, posts=200, rounds=5)
    wanted.add_argument("--latency", type=float, default=0.05)
    chosen = wanted.parse_args()
    accounts, posts, latency, in_flight = chosen.accounts, chosen.posts, chosen.latency, chosen.in_flight
    with (
        scratch(chosen) as folder,
        serving(accounts, posts, latency=latency) as far,
        serving(0, 0) as near,
    ):
        samples = interleaved(
            {
                "floor": lambda _: carry_out(floor(far.url, folder, in_flight), far),
                "gramhouse": lambda turn: carry_out(
                    gramhouse(far.url, Home(folder / f"far-{turn}"), in_flight), far, items=accounts + accounts * posts
                ),
                "empty": lambda turn: carry_out(gramhouse(near.url, Home(folder / f"near-{turn}"), in_flight), near),
            },
            chosen.rounds,
            show,
        )
    items = accounts * posts
    size = {"accounts": accounts, "posts": posts, "items": items, "latency": latency, "in_flight": in_flight}
    what = f"{accounts:,} accounts x {posts:,} posts, {latency * 1000:.0f} ms away, {in_flight} in flight"
    found = figures(samples, bound(accounts, posts, in_flight, latency))
    deliver(Result(f"distance-{size_name(items)}", what, size, samples, found), chosen.results)


if __name__ == "__main__":
    main()

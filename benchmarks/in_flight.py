"""The same sync with 1, 4, 16 and 64 accounts in flight, of a server that is some way off.

python -m benchmarks.in_flight [--accounts 100] [--posts 250] [--latency 0.01] [--places 1 4 16 64]
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.beside import serving
from benchmarks.contenders import Home, carry_out, floor, gramhouse
from benchmarks.options import options, scratch
from benchmarks.results import Result, deliver, show, size_name
from benchmarks.samples import Sample, Samples, interleaved, middle, ratio

if TYPE_CHECKING:
    from collections.abc import Callable


def figures(samples: Samples, many: Sequence[int]) -> dict[str, float]:
    """Return the ratios by how many are in flight; no IO."""
    found = {
        f"{indexes}_wall_over_floor": ratio(samples, f"{indexes}: gramhouse", f"{indexes}: floor") for indexes in many
    }
    return found | {f"{indexes}_wall_seconds": middle(samples[f"{indexes}: gramhouse"]).wall for indexes in many}


def main() -> None:
    """Measure, and say it."""
    wanted = options(__doc__, accounts=100)
    wanted.add_argument("--latency", type=float, default=0.01)
    wanted.add_argument("--places", type=int, nargs="+", default=[1, 4, 16, 64])
    chosen = wanted.parse_args()
    accounts, posts = chosen.accounts, chosen.posts
    items = accounts * posts
    with scratch(chosen) as folder, serving(accounts, posts, latency=chosen.latency) as server:

        def fetch(indexes: int, _: int) -> Sample:
            return carry_out(floor(server.url, folder, indexes), server)

        def ours(indexes: int, turn: int) -> Sample:
            job = gramhouse(server.url, Home(folder / f"{indexes}-{turn}"), indexes)
            return carry_out(job, server, items=accounts + items)

        entrants: dict[str, Callable[[int], Sample]] = {}
        for indexes in chosen.indexes:
            entrants[f"{indexes}: floor"] = partial(fetch, indexes)
            entrants[f"{indexes}: gramhouse"] = partial(ours, indexes)
        samples = interleaved(entrants, chosen.rounds, show)
    size = {"accounts": accounts, "posts": posts, "items": items, "latency": chosen.latency}
    what = f"{accounts:,} accounts x {posts:,} posts, {chosen.latency * 1000:.0f} ms away, by accounts in flight"
    deliver(
        Result(f"in_flight-{size_name(items)}", what, size, samples, figures(samples, chosen.indexes)), chosen.results
    )


if __name__ == "__main__":
    main()

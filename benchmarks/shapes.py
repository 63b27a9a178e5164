"""As many items in other shapes: few large accounts, many small ones, and one alone.

    python -m benchmarks.shapes [--items 200000] [--large 2500] [--small 20] [--one 100000] [--rounds 3]

A page of a small account holds fewer items, so what is compared is what a page costs. The one account is a single
chain, each page of which is asked for when the one before has come: its floor is that chain, alone.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.beside import Beside, serving
from benchmarks.contenders import Home, carry_out, floor, gramhouse
from benchmarks.options import options, scratch
from benchmarks.results import Result, deliver, show, size_name
from benchmarks.samples import Sample, Samples, interleaved, middle, peak, ratio


def shapes(items: int, large: int, small: int, one: int) -> dict[str, tuple[int, int]]:
    """Return the accounts, and the posts of each, of every shape; no IO."""
    return {"few large": (items // large, large), "many small": (items // small, small), "one": (1, one)}


def figures(samples: Samples, names: Mapping[str, object]) -> dict[str, float]:
    """Return what a page costs in each shape, and the ratios; no IO."""
    found = {}
    for name in names:
        short = name.replace(" ", "_")
        ours = middle(samples[f"{name}: gramhouse"])
        found[f"{short}_page_us"] = ours.wall / ours.pages * 1e6
        found[f"{short}_wall_over_floor"] = ratio(samples, f"{name}: gramhouse", f"{name}: floor")
        found[f"{short}_peak_mb"] = peak(samples[f"{name}: gramhouse"])
    found["small_page_over_large"] = found["many_small_page_us"] / found["few_large_page_us"]
    return found


def main() -> None:
    """Measure, and say it."""
    wanted = options(__doc__)
    wanted.add_argument("--items", type=int, default=200_000)
    wanted.add_argument("--large", type=int, default=2500, help="posts of a large account")
    wanted.add_argument("--small", type=int, default=20, help="posts of a small account")
    wanted.add_argument("--one", type=int, default=100_000, help="posts of the one account")
    chosen = wanted.parse_args()
    made = shapes(chosen.items, chosen.large, chosen.small, chosen.one)
    entrants: dict[str, Callable[[int], Sample]] = {}
    with scratch(chosen) as folder, ExitStack() as stack:

        def fetch(server: Beside, _: int) -> Sample:
            return carry_out(floor(server.url, folder, chosen.in_flight), server)

        def ours(server: Beside, index: Path, items: int, turn: int) -> Sample:
            home = Home(index.with_name(f"{index.name}-{turn}"))
            return carry_out(gramhouse(server.url, home, chosen.in_flight), server, items=items)

        for name, (accounts, posts) in made.items():
            server = stack.enter_context(serving(accounts, posts))
            entrants[f"{name}: floor"] = partial(fetch, server)
            entrants[f"{name}: gramhouse"] = partial(ours, server, folder / name, accounts + accounts * posts)
        samples = interleaved(entrants, chosen.rounds, show)
    size = {"shapes": made, "items": chosen.items, "in_flight": chosen.in_flight}
    what = "; ".join(f"{name}: {accounts:,} x {posts:,}" for name, (accounts, posts) in made.items())
    deliver(Result(f"shapes-{size_name(chosen.items)}", what, size, samples, figures(samples, made)), chosen.results)


if __name__ == "__main__":
    main()

"""A server that limits each account by itself: does anybody come too early, and what does the waiting cost.

    python -m benchmarks.limits [--accounts 40] [--posts 2500] [--per-second 10] [--rounds 3]

The server answers 429 with `Retry-After: 1` to an account that has been asked for more than so many pages within a
second, and counts who comes again before that second is over. Other accounts must not wait meanwhile.
"""

from functools import partial

from benchmarks.beside import Beside, serving
from benchmarks.contenders import Home, carry_out, gramhouse
from benchmarks.options import options, scratch
from benchmarks.pages import PAGE
from benchmarks.results import Result, deliver, show, size_name
from benchmarks.samples import Sample, Samples, interleaved, middle


def bound(posts: int, per_second: int) -> float:
    """Return the seconds that one account must wait in all; every account waits at the same time. No IO."""
    pages = max(1, -(-posts // PAGE))
    return float(-(-pages // per_second) - 1)


def figures(samples: Samples, seconds: float) -> dict[str, float]:
    """Return the ratios, given the bound; no IO."""
    limited, free = samples["limited"], samples["unlimited"]
    return {
        "too_early": max(sample.too_early for sample in limited),
        "refused": middle(limited).refused,
        "bound_seconds": seconds,
        "wall_over_bound": middle(limited).wall / (seconds + middle(free).wall),
        "cpu_over_unlimited": middle(limited).cpu / middle(free).cpu,
    }


def main() -> None:
    """Measure, and say it."""
    wanted = options(__doc__, accounts=40, posts=2500)
    wanted.add_argument("--per-second", type=int, default=10)
    chosen = wanted.parse_args()
    accounts, posts = chosen.accounts, chosen.posts
    items = accounts * posts
    with (
        scratch(chosen) as folder,
        serving(accounts, posts) as free,
        serving(accounts, posts, per_second=chosen.per_second) as strict,
    ):

        def sync(name: str, server: Beside, turn: int) -> Sample:
            job = gramhouse(server.url, Home(folder / f"{name}-{turn}"), chosen.in_flight)
            return carry_out(job, server, items=accounts + items)

        entrants = {name: partial(sync, name, server) for name, server in (("unlimited", free), ("limited", strict))}
        samples = interleaved(entrants, chosen.rounds, show)
    size = {"accounts": accounts, "posts": posts, "items": items, "per_second": chosen.per_second}
    what = f"{accounts:,} accounts x {posts:,} posts, at most {chosen.per_second} pages of each in a second"
    found = figures(samples, bound(posts, chosen.per_second))
    deliver(Result(f"limits-{size_name(items)}", what, size, samples, found), chosen.results)


if __name__ == "__main__":
    main()

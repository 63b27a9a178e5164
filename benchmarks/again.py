"""A sync of what is known already, by what has changed since the last one.

    python -m benchmarks.again warm    [--accounts 400] [--posts 250] [--style spaced] [--rounds 3]
    python -m benchmarks.again nightly [... the same] [--with-dlt]
    python -m benchmarks.again urls    [... the same]
    python -m benchmarks.again counts  [... the same]

warm: nothing. nightly: one item in a hundred has changed and two in a hundred are new. urls: every media URL has
another signature. counts: every item's like_count. Each round but warm's is the next day; the fetch alone is measured
on that day's pages. dlt merges by primary key.
"""

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.beside import Beside, serving
from benchmarks.contenders import carry_out, dlt, floor, gramhouse
from benchmarks.kept import copied, prepared
from benchmarks.options import dlt_python, options, scratch, with_dlt
from benchmarks.pages import Change, Service
from benchmarks.results import Result, deliver, result_name, show
from benchmarks.samples import Sample, Samples, interleaved, middle, peak, ratio

_NEWS = {
    "warm": "nothing has changed",
    "nightly": "1 % changed, 2 % new",
    "urls": "every media URL signed again",
    "counts": "every like_count changed",
}
_CHANGES = {"urls": Change.URLS, "counts": Change.COUNTS}


def figures(samples: Samples) -> dict[str, float]:
    """Return the ratios; no IO."""
    found = {
        "wall_over_floor": ratio(samples, "gramhouse", "floor"),
        "cpu_over_floor": middle(samples["gramhouse"]).cpu / middle(samples["floor"]).cpu,
        "peak_mb": peak(samples["gramhouse"]),
    }
    if theirs := samples.get("dlt"):
        found["dlt_wall_over_ours"] = ratio(samples, "dlt", "gramhouse")
        found["peak_over_dlt"] = found["peak_mb"] / peak(theirs)
    return found


def measure(chosen: argparse.Namespace, folder: Path, days: Sequence[int], python: Path | None) -> Samples:
    """Measure a round for each of the days, on a copy of what the first day left."""
    change = _CHANGES.get(chosen.kind, Change.NEWS)
    kept = prepared(chosen.folder or folder, chosen.accounts, chosen.posts, chosen.style)
    home = copied(kept, folder / "gramhouse")

    def items(turn: int) -> int:
        service = Service(chosen.accounts, chosen.posts, days[turn], change=change)
        return sum(map(service.total, range(chosen.accounts)))

    with ExitStack() as stack:
        running: dict[int, Beside] = {}
        for day in sorted({0, *days} if python else set(days)):
            served = serving(chosen.accounts, chosen.posts, day=day, style=chosen.style, change=change)
            running[day] = stack.enter_context(served)

        def fetch(turn: int) -> Sample:
            server = running[days[turn]]
            return carry_out(floor(server.url, folder, chosen.in_flight), server)

        def ours(turn: int) -> Sample:
            server = running[days[turn]]
            job = gramhouse(server.url, home, chosen.in_flight)
            return carry_out(job, server, items=chosen.accounts + items(turn))

        entrants: dict[str, Callable[[int], Sample]] = {"floor": fetch, "gramhouse": ours}
        if python is not None:
            index = folder / "dlt"
            show("dlt's first day")
            carry_out(dlt(running[0].url, index, chosen.in_flight, python, "merge"), running[0])

            def theirs(turn: int) -> Sample:
                server = running[days[turn]]
                job = dlt(server.url, index, chosen.in_flight, python, "merge")
                return carry_out(job, server, items=items(turn))

            entrants["dlt"] = theirs
        return interleaved(entrants, chosen.rounds, show)


def main() -> None:
    """Measure, and say it."""
    wanted = options(__doc__)
    with_dlt(wanted)
    wanted.add_argument("kind", choices=tuple(_NEWS))
    wanted.add_argument("--with-dlt", action="store_true", help="nightly only")
    chosen = wanted.parse_args()
    python = dlt_python(chosen) if chosen.with_dlt and chosen.kind == "nightly" else None
    days = [0] * chosen.rounds if chosen.kind == "warm" else list(range(1, chosen.rounds + 1))
    with scratch(chosen) as folder:
        samples = measure(chosen, folder, days, python)
    items = chosen.accounts * chosen.posts
    size = {"accounts": chosen.accounts, "posts": chosen.posts, "items": items, "in_flight": chosen.in_flight}
    known = f"{chosen.accounts:,} accounts x {chosen.posts:,} posts"
    what = f"{known} again, {_NEWS[chosen.kind]}, {chosen.in_flight} in flight"
    name = result_name(chosen.kind, items, chosen.style)
    deliver(Result(name, what, size, samples, figures(samples)), chosen.results)


if __name__ == "__main__":
    main()

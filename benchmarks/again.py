"""A sync of what is known already: a warm one, when nothing has changed, or nights, each with its changes.

    python -m benchmarks.again warm    [--accounts 400] [--posts 250] [--rounds 3]
    python -m benchmarks.again nightly [--accounts 400] [--posts 250] [--rounds 3] [--with-dlt]

Every round of `nightly` is the next night, in which one item in a hundred has changed and two in a hundred are new; the
fetch alone is measured on that night's pages. dlt merges them by primary key.
"""

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.beside import Beside, serving
from benchmarks.contenders import carry_out, dlt, floor, gramhouse
from benchmarks.kept import copied, prepared
from benchmarks.options import dlt_python, options, scratch, with_dlt
from benchmarks.pages import Service
from benchmarks.results import Result, deliver, size_name, told
from benchmarks.samples import Sample, Samples, interleaved, middle, peak, ratio


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


def measure(chosen: argparse.Namespace, folder: Path, nights: Sequence[int], python: Path | None) -> Samples:
    """Measure a round for each of the nights, on a copy of what the first night left."""
    home = copied(prepared(chosen.folder or folder, chosen.accounts, chosen.posts), folder / "gramhouse")

    def items(turn: int) -> int:
        service = Service(chosen.accounts, chosen.posts, nights[turn])
        return sum(map(service.total, range(chosen.accounts)))

    with ExitStack() as stack:
        running: dict[int, Beside] = {}
        for night in sorted({0, *nights} if python else set(nights)):
            running[night] = stack.enter_context(serving(chosen.accounts, chosen.posts, night=night))

        def fetch(turn: int) -> Sample:
            server = running[nights[turn]]
            return carry_out(floor(server.url, folder, chosen.in_flight), server)

        def ours(turn: int) -> Sample:
            server = running[nights[turn]]
            job = gramhouse(server.url, home, chosen.in_flight)
            return carry_out(job, server, items=chosen.accounts + items(turn))

        entrants: dict[str, Callable[[int], Sample]] = {"floor": fetch, "gramhouse": ours}
        if python is not None:
            place = folder / "dlt"
            told("dlt's first night")
            carry_out(dlt(running[0].url, place, chosen.in_flight, python, "merge"), running[0])

            def theirs(turn: int) -> Sample:
                server = running[nights[turn]]
                job = dlt(server.url, place, chosen.in_flight, python, "merge")
                return carry_out(job, server, items=items(turn))

            entrants["dlt"] = theirs
        return interleaved(entrants, chosen.rounds, told)


def main() -> None:
    """Measure, and say it."""
    wanted = options(__doc__)
    with_dlt(wanted)
    wanted.add_argument("kind", choices=("warm", "nightly"))
    wanted.add_argument("--with-dlt", action="store_true", help="nightly only")
    chosen = wanted.parse_args()
    warm = chosen.kind == "warm"
    python = dlt_python(chosen) if chosen.with_dlt and not warm else None
    nights = [0] * chosen.rounds if warm else list(range(1, chosen.rounds + 1))
    with scratch(chosen) as folder:
        samples = measure(chosen, folder, nights, python)
    items = chosen.accounts * chosen.posts
    size = {"accounts": chosen.accounts, "posts": chosen.posts, "items": items, "in_flight": chosen.in_flight}
    news = "nothing has changed" if warm else "1 % changed, 2 % new"
    what = f"{chosen.accounts:,} accounts x {chosen.posts:,} posts again, {news}, {chosen.in_flight} in flight"
    deliver(Result(f"{chosen.kind}-{size_name(items)}", what, size, samples, figures(samples)), chosen.results)


if __name__ == "__main__":
    main()

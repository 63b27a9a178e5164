"""The first sync of all, against the fetch alone and against dlt.

    python -m benchmarks.cold [--accounts 400] [--posts 250] [--style spaced] [--rounds 3] [--without-dlt]
                              [--folder KEEP]

With --folder the warehouse that was made is kept there, for the scenarios that begin with one.
"""

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.beside import Beside, serving
from benchmarks.contenders import Home, carry_out, dlt, floor, gramhouse
from benchmarks.kept import home_of, keep
from benchmarks.options import dlt_python, options, scratch, with_dlt
from benchmarks.results import Result, deliver, result_name, show
from benchmarks.samples import Sample, Samples, interleaved, middle, peak, ratio

if TYPE_CHECKING:
    from collections.abc import Callable


def figures(samples: Samples) -> dict[str, float]:
    """Return the ratios; no IO."""
    ours, fetch = middle(samples["gramhouse"]), middle(samples["floor"])
    found = {
        "wall_over_floor": ratio(samples, "gramhouse", "floor"),
        "cpu_over_floor": ours.cpu / fetch.cpu,
        "pages_over_floor": ours.pages / fetch.pages,
        "peak_mb": peak(samples["gramhouse"]),
    }
    if theirs := samples.get("dlt"):
        found["dlt_wall_over_ours"] = ratio(samples, "dlt", "gramhouse")
        found["dlt_cpu_over_ours"] = middle(theirs).cpu / ours.cpu
        found["peak_over_dlt"] = found["peak_mb"] / peak(theirs)
    return found


def measure(chosen: argparse.Namespace, folder: Path, server: Beside, python: Path | None) -> Samples:
    """Measure each in a folder of its own, that no longer is when the next begins."""
    items: int = chosen.accounts * chosen.posts

    def fetch(_: int) -> Sample:
        return carry_out(floor(server.url, folder, chosen.in_flight), server)

    def ours(turn: int) -> Sample:
        home = Home(folder / f"gramhouse-{turn}")
        sample = carry_out(gramhouse(server.url, home, chosen.in_flight), server, items=chosen.accounts + items)
        if chosen.folder and turn == chosen.rounds - 1:
            keep(home, home_of(chosen.folder, chosen.accounts, chosen.posts, chosen.style), sample)
        shutil.rmtree(home.folder, ignore_errors=True)
        return sample

    entrants: dict[str, Callable[[int], Sample]] = {"floor": fetch, "gramhouse": ours}
    if python is not None:

        def theirs(turn: int) -> Sample:
            index = folder / f"dlt-{turn}"
            sample = carry_out(dlt(server.url, index, chosen.in_flight, python), server, items=items)
            shutil.rmtree(index)
            return sample

        entrants["dlt"] = theirs
    return interleaved(entrants, chosen.rounds, show)


def main() -> None:
    """Measure, and say it."""
    wanted = options(__doc__)
    with_dlt(wanted)
    chosen = wanted.parse_args()
    python = dlt_python(chosen)
    with scratch(chosen) as folder, serving(chosen.accounts, chosen.posts, style=chosen.style) as server:
        samples = measure(chosen, folder, server, python)
    items = chosen.accounts * chosen.posts
    size = {"accounts": chosen.accounts, "posts": chosen.posts, "items": items, "in_flight": chosen.in_flight}
    what = f"{chosen.accounts:,} accounts x {chosen.posts:,} posts for the first time, {chosen.in_flight} in flight"
    deliver(Result(result_name("cold", items, chosen.style), what, size, samples, figures(samples)), chosen.results)


if __name__ == "__main__":
    main()

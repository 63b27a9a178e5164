"""What is done to a whole warehouse: publish, rebuild, compact; against a plain copy of the warehouse file.

python -m benchmarks.upkeep [--accounts 400] [--posts 250] [--rounds 3] [--folder KEPT] [--without-rebuild]
"""

import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.contenders import Home, Job, carry_out, gramhouse, plain_environment
from benchmarks.kept import copied, prepared
from benchmarks.options import options, scratch
from benchmarks.results import Result, deliver, show, size_name
from benchmarks.samples import Sample, Samples, interleaved, middle, peak, ratio

_NOWHERE = "http://127.0.0.1:9"


def figures(samples: Samples) -> dict[str, float]:
    """Return the ratios; no IO."""
    found = {}
    for name in ("publish", "rebuild", "compact"):
        if name in samples:
            found[f"{name}_over_copy"] = ratio(samples, name, "copy of the warehouse")
            found[f"{name}_seconds"] = middle(samples[name]).wall
            found[f"{name}_peak_mb"] = peak(samples[name])
    return found


def copy_of(source: Path, folder: Path) -> Sample:
    """Measure a plain copy, and remove it."""
    target = folder / "copy"
    command = (sys.executable, "-m", "benchmarks.copying", str(source), str(target))
    sample = carry_out(Job(command, plain_environment(), folder))
    target.unlink()
    return sample


def main() -> None:
    """Measure, and say it."""
    wanted = options(__doc__)
    wanted.add_argument("--without-rebuild", action="store_true")
    chosen = wanted.parse_args()
    with scratch(chosen) as folder:
        home: Home = copied(prepared(chosen.folder or folder, chosen.accounts, chosen.posts), folder / "gramhouse")

        def do(*words: str) -> Callable[[int], Sample]:
            return lambda _: carry_out(gramhouse(_NOWHERE, home, chosen.in_flight, *words))

        entrants: dict[str, Callable[[int], Sample]] = {
            "copy of the warehouse": lambda _: copy_of(home.warehouse, folder),
            "publish": do("publish"),
            "rebuild": do("rebuild"),
            "compact": do("compact"),
        }
        if chosen.without_rebuild:
            del entrants["rebuild"]
        samples = interleaved(entrants, chosen.rounds, show)
        sizes = {path.stem: path.stat().st_size for path in (home.warehouse, home.snapshot)}
    items = chosen.accounts * chosen.posts
    size = {"accounts": chosen.accounts, "posts": chosen.posts, "items": items, "bytes": sizes}
    what = f"{items:,} items; the snapshot {sizes['analytics'] / 1e6:,.0f} MB"
    deliver(Result(f"upkeep-{size_name(items)}", what, size, samples, figures(samples)), chosen.results)


if __name__ == "__main__":
    main()

"""Draw what was measured: a picture beside each result, and one of all the goals. Needs matplotlib, nothing else does.

python -m benchmarks.plot [--results FOLDER]
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.goals import GOALS, Verdict, judge, read
from benchmarks.results import RESULTS

_FIRST, _OTHER, _OURS, _ROUND = "#9aa5b1", "#d9a05b", "#2f6f9f", "#1b1b1b"
_REACHED, _MISSED, _UNDECIDED = "#3c8d5a", "#b5473c", "#9aa5b1"


def colour(name: str) -> str:
    """Colour a contender: the measure of the others grey, gramhouse blue."""
    if any(word in name for word in ("floor", "copy", "by hand", "clean", "empty")):
        return _FIRST
    return _OTHER if "dlt" in name else _OURS


def share(verdict: Verdict) -> float | None:
    """Return how much of what a goal allows is used: 1 and less is reached. No IO."""
    goal, measured = verdict.goal, verdict.measured
    if measured is None or not goal.bound:
        return None
    return goal.bound / measured if goal.at_least else measured / goal.bound


def _bars(axes: Any, names: Sequence[str], rounds: Mapping[str, Sequence[float]], title: str, unit: str) -> None:  # noqa: ANN401 - matplotlib is optional
    middles = [median(rounds[name]) for name in names]
    axes.barh(names, middles, color=[colour(name) for name in names])
    for index, name in enumerate(names):
        axes.plot(rounds[name], [index] * len(rounds[name]), "|", color=_ROUND, markersize=8)
        first = middles[0] or 1
        axes.annotate(
            f" {middles[index]:,.3g} {unit}  ({middles[index] / first:.2f})",
            (max(rounds[name]), index),
            va="center",
            fontsize=8,
        )
    axes.set_title(title, fontsize=9, loc="left")
    axes.margins(x=0.35)
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)


def draw(document: Mapping[str, Any], target: Path) -> None:
    """Draw a result: how long each took, every round a stroke, and the memory where it was measured."""
    samples = document["samples"]
    names = list(samples)
    panels = [("wall", "wall time of each round; in brackets, of the first", "s")]
    if any(sample["peak_mb"] for some in samples.values() for sample in some):
        panels.append(("peak_mb", "peak memory", "MB"))
    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.5 * len(panels), 1.2 + 0.42 * len(names)), squeeze=False, sharey=True
    )
    for index, (field, title, unit) in enumerate(panels):
        rounds = {name: [sample[field] for sample in samples[name]] for name in names}
        _bars(axes[0][index], names, rounds, title, unit)
    axes[0][0].invert_yaxis()
    about = document["machine"]
    figure.suptitle(
        f"{document['name']}: {document['what']}\n{about['cores']} cores, {about['cpu']}, Python {about['python']}",
        fontsize=9,
        x=0.01,
        ha="left",
    )
    figure.tight_layout()
    figure.savefig(target, dpi=130)
    plt.close(figure)


def draw_goals(verdicts: Sequence[Verdict], target: Path) -> None:
    """Draw how much of what each goal allows is used; grey is measured at another size."""
    drawn = [(verdict, used) for verdict in verdicts if (used := share(verdict)) is not None]
    if not drawn:
        return
    colours = {"reached": _REACHED, "NOT REACHED": _MISSED}
    figure, axes = plt.subplots(figsize=(9, 1 + 0.4 * len(drawn)))
    names = [verdict.goal.work for verdict, _ in drawn]
    axes.barh(names, [used for _, used in drawn], color=[colours.get(v.message, _UNDECIDED) for v, _ in drawn])
    for index, (verdict, used) in enumerate(drawn):
        axes.annotate(f" {verdict.measured:.2f} ({verdict.message})", (used, index), va="center", fontsize=8)
    axes.axvline(1, color=_ROUND, linewidth=1)
    axes.invert_yaxis()
    axes.margins(x=0.3)
    axes.set_title("share of what each goal allows; up to the line is reached", fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(target, dpi=130)
    plt.close(figure)


def main() -> None:
    """Draw everything that is there."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--results", type=Path, default=RESULTS)
    chosen = wanted.parse_args()
    mpl.use("Agg")
    for file in sorted(chosen.results.glob("*.json")):
        document = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(document, dict) and "samples" in document:
            draw(document, file.with_suffix(".png"))
            print(file.with_suffix(".png"))
    found = read(chosen.results)
    draw_goals([judge(goal, found) for goal in GOALS], chosen.results / "goals.png")


if __name__ == "__main__":
    main()

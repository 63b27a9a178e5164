"""Draws a chart for each result, next to its JSON file, and one of all goals. Needs matplotlib.

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

from benchmarks.goals import GOALS, Verdict, judge, read_figures
from benchmarks.measuring.results import RESULTS

_BASELINE, _DLT, _GRAMHOUSE, _ROUND = "#9aa5b1", "#d9a05b", "#2f6f9f", "#1b1b1b"
_REACHED, _MISSED, _UNDECIDED = "#3c8d5a", "#b5473c", "#9aa5b1"


def colour(name: str) -> str:
    """Return a candidate's colour: grey for a baseline, orange for dlt, blue for gramhouse."""
    if any(word in name for word in ("floor", "script", "copy", "by hand", "clean", "empty")):
        return _BASELINE
    return _DLT if "dlt" in name else _GRAMHOUSE


def share(verdict: Verdict) -> float | None:
    """Return the measured value as a share of the limit: a goal is reached at 1 or less. No IO."""
    goal, measured = verdict.goal, verdict.measured
    if measured is None or not goal.limit:
        return None
    return goal.limit / measured if goal.at_least else measured / goal.limit


def _bars(axes: Any, names: Sequence[str], rounds: Mapping[str, Sequence[float]], title: str, unit: str) -> None:  # noqa: ANN401 - matplotlib is optional
    medians = [median(rounds[name]) for name in names]
    axes.barh(names, medians, color=[colour(name) for name in names])
    for index, name in enumerate(names):
        axes.plot(rounds[name], [index] * len(rounds[name]), "|", color=_ROUND, markersize=8)
        first = medians[0] or 1
        axes.annotate(
            f" {medians[index]:,.3g} {unit}  ({medians[index] / first:.2f})",
            (max(rounds[name]), index),
            va="center",
            fontsize=8,
        )
    axes.set_title(title, fontsize=9, loc="left")
    axes.margins(x=0.35)
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)


def draw(document: Mapping[str, Any], target: Path) -> None:
    """Draw a result: the wall times, with a mark for each round, and the peak memory if it was measured."""
    samples = document["samples"]
    names = list(samples)
    panels = [("wall", "wall time: median, rounds; in brackets, relative to the first", "s")]
    if any(sample["peak_mb"] for candidate in samples.values() for sample in candidate):
        panels.append(("peak_mb", "peak memory", "MB"))
    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.5 * len(panels), 1.2 + 0.42 * len(names)), squeeze=False, sharey=True
    )
    for index, (field, title, unit) in enumerate(panels):
        rounds = {name: [sample[field] for sample in samples[name]] for name in names}
        _bars(axes[0][index], names, rounds, title, unit)
    axes[0][0].invert_yaxis()
    machine = document["machine"]
    figure.suptitle(
        f"{document['name']}: {document['what']}\n"
        f"{machine['cores']} cores, {machine['cpu']}, Python {machine['python']}",
        fontsize=9,
        x=0.01,
        ha="left",
    )
    figure.tight_layout()
    figure.savefig(target, dpi=130)
    plt.close(figure)


def draw_goals(verdicts: Sequence[Verdict], target: Path) -> None:
    """Draw the share of each goal's limit; grey means measured at another size."""
    drawn = [(verdict, used) for verdict in verdicts if (used := share(verdict)) is not None]
    if not drawn:
        return
    colours = {"reached": _REACHED, "NOT REACHED": _MISSED}
    figure, axes = plt.subplots(figsize=(9, 1 + 0.4 * len(drawn)))
    names = [verdict.goal.description for verdict, _ in drawn]
    axes.barh(names, [used for _, used in drawn], color=[colours.get(v.message, _UNDECIDED) for v, _ in drawn])
    for index, (verdict, used) in enumerate(drawn):
        axes.annotate(f" {verdict.measured:.2f} ({verdict.message})", (used, index), va="center", fontsize=8)
    axes.axvline(1, color=_ROUND, linewidth=1)
    axes.invert_yaxis()
    axes.margins(x=0.3)
    axes.set_title("share of each goal's limit; up to the line the goal is reached", fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(target, dpi=130)
    plt.close(figure)


def main() -> None:
    """Draw every result and the goals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    mpl.use("Agg")
    for file in sorted(args.results.glob("*.json")):
        document = json.loads(file.read_text(encoding="utf-8"))
        if "samples" in document:
            draw(document, file.with_suffix(".png"))
            print(file.with_suffix(".png"))
    figures = read_figures(args.results)
    draw_goals([judge(goal, figures) for goal in GOALS], args.results / "goals.png")


if __name__ == "__main__":
    main()

"""Performance goals, compared with the saved results of the scenarios.

    python -m benchmarks.goals [--results FOLDER] [--check]

A goal that was measured only at another size is shown with that size, neither reached nor missed.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring.results import RESULTS

Figures = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure of a result and its limit, a maximum unless `at_least` is set.

    With `relative_to`, the figure is first divided by the same figure of that result. `other_sizes` are results of the
    same scenario at other sizes.
    """

    description: str
    result: str
    figure: str
    limit: float
    at_least: bool = False
    relative_to: str | None = None
    other_sizes: tuple[str, ...] = ()

    def reached_by(self, measured: float) -> bool:
        """Return whether the measured value is within the limit."""
        return measured >= self.limit if self.at_least else measured <= self.limit


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal, its measured value (None if not measured), and the result it comes from."""

    goal: Goal
    measured: float | None
    result: str | None

    @property
    def message(self) -> str:
        """The verdict in words."""
        if self.measured is None:
            return "not measured"
        if self.result != self.goal.result:
            return f"only {self.result}"
        return "reached" if self.goal.reached_by(self.measured) else "NOT REACHED"


# Times over those of the fetch are goals for the slow server, which is like a real service: the fetch takes three times
# as long as from one that answers at once.
GOALS = (
    Goal("first sync, 100k: dlt's time over ours", "cold-spaced-100k", "dlt_wall_over_ours", 2.2, at_least=True),
    Goal("first sync, 100k: time over the simplest script", "cold-spaced-100k", "wall_over_script", 2.8),
    Goal("nothing changed, 100k: dlt's time over ours", "warm-spaced-100k", "dlt_wall_over_ours", 3.5, at_least=True),
    Goal("nothing changed, 100k: time over the simplest script", "warm-spaced-100k", "wall_over_script", 1.6),
    Goal("all URLs signed again, 100k: time over the simplest script", "urls-spaced-100k", "wall_over_script", 3),
    Goal("first sync, 100k: peak memory, MB", "cold-spaced-100k", "peak_mb", 430),
    Goal("nothing changed, 100k: peak memory, MB", "warm-spaced-100k", "peak_mb", 200),
    Goal("first sync, 100k, slow server: time over the fetch alone", "cold-spaced-100k-3x", "wall_over_floor", 1.8),
    Goal(
        "first sync, 100k, slow server: dlt's time",
        "cold-spaced-100k-3x",
        "dlt_wall_over_ours",
        3,
        at_least=True,
    ),
    Goal("nothing changed, 100k, slow server: time over the fetch", "warm-spaced-100k-3x", "wall_over_floor", 1.25),
    Goal("1 % changed, 2 % new, 100k, slow server", "nightly-spaced-100k-3x", "wall_over_floor", 1.4),
    Goal("all URLs signed again, 100k, slow server", "urls-spaced-100k-3x", "wall_over_floor", 1.6),
    Goal("all counts changed, 100k, slow server", "counts-spaced-100k-3x", "wall_over_floor", 1.8),
    Goal("first sync, 1M, slow server: time over the fetch alone", "cold-spaced-1m-3x", "wall_over_floor", 1.6),
    Goal("first sync, 10M, slow server: time over the fetch alone", "cold-spaced-10m-3x", "wall_over_floor", 2),
    Goal("2M items of 100,000 accounts, slow server", "shapes-spaced-2m-3x", "many_small_wall_over_floor", 2),
    Goal("--help: seconds of CPU", "startup", "help_cpu_seconds", 0.25),
    Goal("empty sync, 1 account: seconds", "startup", "sync_seconds", 0.8),
    Goal("50 ms away: time over the bound and start-up", "distance-8k", "wall_over_bound", 1.2),
    Goal("first sync, 1M: peak memory, MB", "cold-1m", "peak_mb", 400),
    Goal("first sync, 10M: peak memory over that at 1M", "cold-10m", "peak_mb", 1.3, relative_to="cold-1m"),
    Goal(
        "nightly of 100k: merges on 10M over those on 1M",
        "large-10m",
        "merge_over_smallest",
        3,
        other_sizes=("large-1m", "large-100k"),
    ),
    Goal("resumed half-way: pages over a clean run's", "resume-100k", "pages_over_clean", 1.02),
    Goal(
        "publish, 10M: time over a plain copy",
        "upkeep-10m",
        "publish_over_copy",
        1.5,
        other_sizes=("upkeep-1m", "upkeep-100k"),
    ),
    Goal(
        "snapshot, 10M: an account's last 100 posts, ms",
        "queries-10m",
        "last_posts_ms",
        10,
        other_sizes=("queries-1m", "queries-100k"),
    ),
    Goal("100 days of 3 %, 10M: an account's last 100 posts, ms", "days-10m", "last_posts_ms", 10),
    Goal("100 days of 3 %, 10M: file over the compacted one", "days-10m", "file_over_compacted", 2),
    Goal("100 days of 3 %, 1M: file over the compacted one", "days-1m", "file_over_compacted", 2),
    Goal("rebuild, 1M: time over decoding alone", "upkeep-1m", "rebuild_over_decode", 2, other_sizes=("upkeep-100k",)),
    Goal(
        "snapshot, 10M: engagement by day over by hand",
        "queries-10m",
        "by_day_over_by_hand",
        1.2,
        other_sizes=("queries-1m", "queries-100k"),
    ),
    Goal("incremental, 1,000 x 500: requests of posts a day", "incremental-500k", "requests_of_posts_a_day", 3500),
    Goal("incremental, 1,000 x 500: all requests a day", "incremental-500k", "requests_a_day", 4600),
    Goal("incremental, 1,000 x 500: posts missed", "incremental-500k", "missed", 0),
    Goal("sync --due, 1,000 accounts: requests over those of today", "due-1000", "requests_over_today", 0.5),
    Goal("sync --due, 1,000 accounts: posts seen a day or more late", "due-1000", "late_share", 0.06),
    Goal("sync --due, 1,000 accounts: posts seen later than the goal", "due-1000", "later_than_goal", 0),
    Goal("sync --due, 1,000 accounts: ages stated that are not true", "due-1000", "wrong_ages", 0),
    Goal(
        "limited accounts: requests that came too early",
        "limits-100k",
        "too_early",
        0,
    ),
    Goal("limited key, 429: requests refused, of those served", "key-limit-15k", "429_refused_share", 0.05),
    Goal("limited key, 429: time over the least of the limit", "key-limit-15k", "429_seconds_over_bound", 1.3),
    Goal("limited key, 503: requests refused, of those served", "key-limit-15k", "503_refused_share", 0.05),
    Goal("limited key, 503: time over the least of the limit", "key-limit-15k", "503_seconds_over_bound", 1.3),
)


def judge(goal: Goal, figures: Figures) -> Verdict:
    """Compare a goal with the figures of the available results."""
    for result in (goal.result, *goal.other_sizes):
        measured = figures.get(result, {}).get(goal.figure)
        if measured is None:
            continue
        if goal.relative_to is not None:
            baseline = figures.get(goal.relative_to, {}).get(goal.figure)
            if not baseline:
                continue
            measured /= baseline
        return Verdict(goal, measured, result)
    return Verdict(goal, None, None)


def format_table(verdicts: Sequence[Verdict]) -> str:
    """Format the verdicts as a table."""
    rows = [("goal", "limit", "measured", "")]
    for verdict in verdicts:
        goal = verdict.goal
        sign = "≥" if goal.at_least else "≤"
        measured = "-" if verdict.measured is None else f"{verdict.measured:.2f}"
        rows.append((goal.description, f"{sign} {goal.limit:g}", measured, verdict.message))
    widths = [max(len(row[index]) for row in rows) for index in range(3)]
    return "\n".join(
        f"{description:<{widths[0]}}  {limit:>{widths[1]}}  {measured:>{widths[2]}}  {message}".rstrip()
        for description, limit, measured, message in rows
    )


def read_figures(folder: Path) -> dict[str, dict[str, float]]:
    """Read the figures of every result."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8"))["figures"] for file in folder.glob("*.json")}


def main() -> None:
    """Print the goals and their verdicts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is not reached")
    args = parser.parse_args()
    figures = read_figures(args.results)
    verdicts = [judge(goal, figures) for goal in GOALS]
    print(format_table(verdicts))
    if args.check and any(verdict.message == "NOT REACHED" for verdict in verdicts):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

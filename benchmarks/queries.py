"""Analysts' questions to the snapshot, and to tables that were sorted by hand and hold the same.

    python -m benchmarks.queries [--accounts 400] [--posts 250] [--rounds 3] [--folder KEPT]

Each round opens each file once and asks every question of it: an account's last 100 posts of 20 accounts, the others
thrice. `by day` groups the posts by the day of their publication; `view` asks the snapshot's engagement_by_day.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import duckdb

from benchmarks.kept import home_of, prepared
from benchmarks.options import options, scratch
from benchmarks.pages import account_id
from benchmarks.results import Result, deliver, show, size_name
from benchmarks.samples import Sample, Samples, middle, turns

Question = Callable[[duckdb.DuckDBPyConnection], object]

_ASKED = 20

_LAST_POSTS = """
SELECT media_id, published_at, media_type, caption, permalink, like_count, comments_count
FROM media WHERE account_id = ? AND surface = 'posts' ORDER BY published_at DESC LIMIT 100
"""
_BY_DAY = """
SELECT published_at::DATE AS day, count(*) AS posts, sum(like_count) AS likes, sum(comments_count) AS comments
FROM media WHERE surface = 'posts' GROUP BY day ORDER BY day
"""
_VIEW = """
SELECT day, sum(likes_gained), sum(comments_gained), sum(posts_published)
FROM engagement_by_day GROUP BY day ORDER BY day
"""

_BY_HAND = {
    "accounts": "account_id",
    "media": "account_id, surface, published_at DESC, media_id",
    "media_metrics": "account_id, surface, media_id, metric, observed_at",
}


def by_hand(snapshot: Path, target: Path) -> None:
    """Write the snapshot's tables anew, sorted for the questions, with the view that one of them asks."""
    draft = target.with_name(target.name + ".draft")
    draft.unlink(missing_ok=True)
    with duckdb.connect(draft) as db:
        db.execute("SET memory_limit = '4GB'")
        db.execute(f"ATTACH '{snapshot}' AS snapshot (READ_ONLY)")
        for name, order in _BY_HAND.items():
            db.execute(f"CREATE TABLE {name} AS SELECT * FROM snapshot.{name} ORDER BY {order}")
        ((view,),) = db.execute(
            "SELECT sql FROM duckdb_views() WHERE database_name = 'snapshot' AND view_name = 'engagement_by_day'"
        ).fetchall()
        db.execute(view)
    draft.replace(target)


def ask(
    file: Path, questions: Mapping[str, Sequence[Callable[[duckdb.DuckDBPyConnection], object]]]
) -> dict[str, Sample]:
    """Open a file, ask it everything, and return each question's median time."""
    found = {}
    with duckdb.connect(file, read_only=True) as db:
        for name, asked in questions.items():
            took = []
            for question in asked:
                began = time.perf_counter()
                question(db)
                took.append(Sample(time.perf_counter() - began))
            found[name] = middle(took)
    return found


def figures(samples: Samples) -> dict[str, float]:
    """Return milliseconds of the snapshot, and the ratios; no IO."""
    found = {}
    for name in ("last posts", "by day", "view"):
        ours, hand = middle(samples[f"{name}: snapshot"]).wall, middle(samples[f"{name}: by hand"]).wall
        short = name.replace(" ", "_")
        found[f"{short}_ms"] = ours * 1000
        found[f"{short}_over_by_hand"] = ours / hand
    return found


def _ask(sql: str, parameters: Sequence[object], db: duckdb.DuckDBPyConnection) -> object:
    return db.execute(sql, parameters).fetchall()


def main() -> None:
    """Measure, and say it."""
    chosen = options(__doc__).parse_args()
    accounts, posts = chosen.accounts, chosen.posts
    with scratch(chosen) as scratched:
        folder = chosen.folder or scratched
        snapshot = prepared(folder, accounts, posts).snapshot
        sorted_by_hand = home_of(folder, accounts, posts).folder / "by_hand.duckdb"
        if not sorted_by_hand.exists():
            by_hand(snapshot, sorted_by_hand)
        some = [account_id(index * accounts // _ASKED) for index in range(_ASKED)]
        questions = {
            "last posts": [partial(_ask, _LAST_POSTS, [account]) for account in some],
            "by day": [partial(_ask, _BY_DAY, [])] * 3,
            "view": [partial(_ask, _VIEW, [])] * 3,
        }
        files = {"by hand": sorted_by_hand, "snapshot": snapshot}
        samples: dict[str, list[Sample]] = {f"{name}: {file}": [] for name in questions for file in files}
        for turn, file in turns(tuple(files), chosen.rounds):
            for name, sample in ask(files[file], questions).items():
                samples[f"{name}: {file}"].append(sample)
                show(f"round {turn + 1}: {name}: {file} {sample.wall * 1000:.1f} ms")
    items = accounts * posts
    size = {"accounts": accounts, "posts": posts, "items": items}
    what = f"questions to {items:,} items, seconds of each"
    deliver(Result(f"queries-{size_name(items)}", what, size, samples, figures(samples)), chosen.results)


if __name__ == "__main__":
    main()

"""Analysts' queries on the snapshot, and on a file with the same tables sorted for these queries.

    python -m benchmarks.warehouse.queries [--accounts 400] [--posts 250] [--rounds 3] [--folder KEEP]

Each round opens each file once and runs every query: `last posts` (an account's last 100 posts) for 20 accounts, the
others three times. `by day` groups all posts by the day of publication; `view` reads the view engagement_by_day. The
file with sorted tables is called `by hand`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import duckdb

from benchmarks.api.synthetic_api import account_id
from benchmarks.candidates.saved_warehouse import load_or_create, saved_folder
from benchmarks.measuring.options import create_parser, temporary_folder
from benchmarks.measuring.results import Result, log, save_result, size_name
from benchmarks.measuring.samples import Sample, Samples, median_sample, rotate

Query = Callable[[duckdb.DuckDBPyConnection], object]

QUERIED_ACCOUNTS = 20

LAST_POSTS = """
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

_SORT_ORDERS = {
    "accounts": "account_id",
    "media": "account_id, surface, published_at DESC, media_id",
    "media_metrics": "account_id, surface, media_id, metric, observed_at",
    "published": "snapshot_at",
}


def write_sorted(snapshot: Path, target: Path) -> None:
    """Copy the snapshot's tables in the order that suits the queries, and the view that one query reads."""
    draft = target.with_name(target.name + ".draft")
    draft.unlink(missing_ok=True)
    with duckdb.connect(draft) as db:
        db.execute("SET memory_limit = '4GB'")
        db.execute(f"ATTACH '{snapshot}' AS snapshot (READ_ONLY)")
        for name, order in _SORT_ORDERS.items():
            db.execute(f"CREATE TABLE {name} AS SELECT * FROM snapshot.{name} ORDER BY {order}")
        ((view,),) = db.execute(
            "SELECT sql FROM duckdb_views() WHERE database_name = 'snapshot' AND view_name = 'engagement_by_day'"
        ).fetchall()
        db.execute(view)
    draft.replace(target)


def run_queries(file: Path, queries: Mapping[str, Sequence[Query]]) -> dict[str, Sample]:
    """Open a file, run all queries, and return the median time of each."""
    samples = {}
    with duckdb.connect(file, read_only=True) as db:
        for name, executions in queries.items():
            times = []
            for execute in executions:
                began = time.perf_counter()
                execute(db)
                times.append(Sample(time.perf_counter() - began))
            samples[name] = median_sample(times)
    return samples


def figures(samples: Samples) -> dict[str, float]:
    """Return milliseconds on the snapshot, and the ratios; no IO."""
    ratios = {}
    for name in ("last posts", "by day", "view"):
        snapshot, sorted_file = (
            median_sample(samples[f"{name}: snapshot"]).wall,
            median_sample(samples[f"{name}: by hand"]).wall,
        )
        short = name.replace(" ", "_")
        ratios[f"{short}_ms"] = snapshot * 1000
        ratios[f"{short}_over_by_hand"] = snapshot / sorted_file
    return ratios


def execute(sql: str, parameters: Sequence[object], db: duckdb.DuckDBPyConnection) -> object:
    """Run a query and fetch its rows."""
    return db.execute(sql, parameters).fetchall()


def main() -> None:
    """Run the benchmark and save the result."""
    args = create_parser(__doc__).parse_args()
    accounts, posts = args.accounts, args.posts
    with temporary_folder(args) as temporary:
        folder = args.folder or temporary
        snapshot = load_or_create(folder, accounts, posts).snapshot
        sorted_file = saved_folder(folder, accounts, posts).path / "by_hand.duckdb"
        if not sorted_file.exists():
            write_sorted(snapshot, sorted_file)
        queried = [account_id(index * accounts // QUERIED_ACCOUNTS) for index in range(QUERIED_ACCOUNTS)]
        queries = {
            "last posts": [partial(execute, LAST_POSTS, [account]) for account in queried],
            "by day": [partial(execute, _BY_DAY, [])] * 3,
            "view": [partial(execute, _VIEW, [])] * 3,
        }
        files = {"by hand": sorted_file, "snapshot": snapshot}
        samples: dict[str, list[Sample]] = {f"{name}: {file}": [] for name in queries for file in files}
        for round_number, file in rotate(tuple(files), args.rounds):
            for name, sample in run_queries(files[file], queries).items():
                samples[f"{name}: {file}"].append(sample)
                log(f"round {round_number + 1}: {name}: {file} {sample.wall * 1000:.1f} ms")
    items = accounts * posts
    size = {"accounts": accounts, "posts": posts, "items": items}
    description = f"queries on {items:,} items, seconds of each"
    save_result(Result(f"queries-{size_name(items)}", description, size, samples, figures(samples)), args.results)


if __name__ == "__main__":
    main()

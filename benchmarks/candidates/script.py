"""The simplest script that does something useful: fetches posts, and appends some columns to a DuckDB table.

    python -m benchmarks.candidates.script URL FILE CONCURRENCY

The pages go into a new file by way of Arrow. It has no history, no checkpoints, and no columns that it does not know.
"""

import asyncio
import json
import sys
from collections.abc import Mapping

import duckdb
import msgspec
import pyarrow as pa

from benchmarks.candidates.floor import fetch

_TEXTS = ("id", "caption", "media_type", "media_url", "permalink", "timestamp")
_NUMBERS = ("like_count", "comments_count")
_COLUMNS = pa.schema([*((name, pa.string()) for name in _TEXTS), *((name, pa.int64()) for name in _NUMBERS)])

# The items that are appended at once.
_PORTION = 10_000


def main() -> None:
    """Fetch everything into a new file, and print the counts."""
    url, file, concurrency = sys.argv[1:]
    db, items = duckdb.connect(file), list[Mapping[str, object]]()

    def append() -> None:
        db.register("posts", pa.Table.from_pylist(items, _COLUMNS))
        db.execute("INSERT INTO media FROM posts")
        items.clear()

    def use(page: bytes) -> None:
        items.extend(msgspec.json.decode(page)["items"])
        if len(items) >= _PORTION:
            append()

    db.register("posts", _COLUMNS.empty_table())
    db.execute("CREATE TABLE media AS FROM posts")
    fetched = asyncio.run(fetch(url, int(concurrency), use))
    append()
    print(json.dumps(fetched))


if __name__ == "__main__":
    main()

"""Reads the raw store of a warehouse and all items in it: what a rebuild takes at least. Prints seconds as JSON.

    python -m benchmarks.candidates.decode WAREHOUSE

Starting Python is not included.
"""

import json
import sys
import time
from pathlib import Path

from connectors.warehouse.raw.parts import read_parts
from connectors.warehouse.storage.connection import open_warehouse
from connectors.warehouse.storage.identity import read_warehouse
from models.item import read_items
from models.mapping import BUILT_IN


def main() -> None:
    """Read the items and print the seconds."""
    path = Path(sys.argv[1])
    with open_warehouse(path) as db:
        row = read_warehouse(db)
    began, items = time.perf_counter(), 0
    for rows in read_parts(path.parent / "raw" / row.id, merged_seq=row.merged_seq):
        read_items(enumerate(rows["payload"].to_pylist()), row.mapping or BUILT_IN)
        items += rows.num_rows
    print(json.dumps({"items": items, "seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    main()

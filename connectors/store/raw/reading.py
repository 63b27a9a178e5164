"""Reads the raw store. Every page's checksum is verified."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from connectors.store.raw.parts import part_numbers, part_path
from connectors.store.storage.errors import explain

Place = tuple[int, int]
"""A landing number, and a position on its page."""


def read_parts(folder: Path, *, merged_seq: int) -> Iterator[pa.Table]:
    """Yield the rows of all landings up to `merged_seq`, part by part in their order, each row once.

    Two parts have the same landing only after a compaction that was killed; the first part has all of them then.
    Raises WarehouseUnusable if a part is damaged.
    """
    last = 0
    for number in part_numbers(folder):
        rows = _read(part_path(folder, number))
        rows = rows.filter((pc.field("landed") > last) & (pc.field("landed") <= merged_seq))
        if rows.num_rows:
            last = pc.max(rows["landed"]).as_py()
            yield rows


def find_payloads(folder: Path, places: Collection[Place]) -> Mapping[Place, bytes]:
    """Return the bytes at these places, for those that the raw store has. Raises WarehouseUnusable as `read_parts`."""
    numbers = part_numbers(folder)
    by_part: dict[int, set[int]] = {}
    for landed, _ in places:
        if at := bisect_right(numbers, landed):
            by_part.setdefault(numbers[at - 1], set()).add(landed)
    found: dict[Place, bytes] = {}
    for number, landings in by_part.items():
        rows = _read(part_path(folder, number), landings).to_pydict()
        found.update(zip(zip(rows["landed"], rows["position"], strict=True), rows["payload"], strict=True))
    return {place: found[place] for place in places if place in found}


def _read(path: Path, landings: Collection[int] | None = None) -> pa.Table:
    filters = None if landings is None else pc.field("landed").isin(sorted(landings))
    try:
        return pq.read_table(path, filters=filters, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise explain(path, error) from error

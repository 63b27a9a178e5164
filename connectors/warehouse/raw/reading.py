"""Reads the raw store. Every page's checksum is verified."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from connectors.warehouse.raw.parts import SCHEMA, part_numbers, part_path
from connectors.warehouse.storage.errors import WarehouseUnusable, first_line


def find_parts(folder: Path, *, merged_seq: int) -> Sequence[Path]:
    """Return the parts with landings up to `merged_seq`, in order, without those whose rows an earlier part has.

    There are such parts while readers may still use what a compaction replaced. Raises WarehouseUnusable if a part
    cannot be read.
    """
    found = []
    last = 0
    for number in part_numbers(folder):
        if last < number <= merged_seq:
            path = part_path(folder, number)
            found.append(path)
            last = max(last, _last_landing(path))
    return found


def _last_landing(path: Path) -> int:
    try:
        metadata = pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, error) from error
    # Rows are sorted by landing. A part has none if all were erased.
    return 0 if not metadata.num_rows else int(metadata.row_group(metadata.num_row_groups - 1).column(0).statistics.max)


def oldest_row(path: Path) -> datetime | None:
    """Return when the oldest row of a part was received, in UTC; None if it has none."""
    groups = pq.read_metadata(path)
    times = [groups.row_group(n).column(SCHEMA.get_field_index("seen_at")) for n in range(groups.num_row_groups)]
    return min((one.statistics.min for one in times if groups.num_rows), default=None)


def read_parts(folder: Path, *, merged_seq: int) -> Iterator[pa.Table]:
    """Yield the rows of all landings up to `merged_seq`, part by part in their order, each row once.

    A compaction may have put later landings into a part that a snapshot reads. Raises WarehouseUnusable if a part is
    damaged.
    """
    for path in find_parts(folder, merged_seq=merged_seq):
        yield read_part(path).filter(pc.field("landed") <= merged_seq)


def read_part(path: Path) -> pa.Table:
    """Return the rows of a part. Raises WarehouseUnusable if it is damaged."""
    try:
        return pq.read_table(path, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> WarehouseUnusable:
    return WarehouseUnusable(f"{path} cannot be read: {first_line(error)}. Fix: restore the file from a backup.")

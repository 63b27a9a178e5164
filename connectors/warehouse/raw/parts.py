"""The parts of the raw store: written once, durably, and deleted only if their landings will be merged again.

A part is named by the landing of the first row that it had. Merges write parts in the order of landings, so a landing
is in the last part whose name is not above it.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from connectors.warehouse.storage.files import sync
from models.files import WarehouseUnusable, first_line

SCHEMA = pa.schema(
    {
        "landed": pa.int64(),
        "position": pa.int32(),
        **dict.fromkeys(("account_id", "surface", "media_id"), pa.string()),
        "seen_at": pa.timestamp("us", tz="UTC"),
        **dict.fromkeys(("run_id", "correlation_id"), pa.string()),
        "payload": pa.binary(),
    }
)

# A query for one landing reads whole row groups, so that it costs a few milliseconds.
_ROW_GROUP = 4096


def part_path(folder: Path, number: int) -> Path:
    """Return the path of the part whose first row is of this landing."""
    return folder / f"raw-{number:015}.parquet"


def list_parts(folder: Path) -> dict[int, Path]:
    """Return the paths of all parts by their numbers, the lowest first."""
    found = sorted(folder.glob(f"raw-{'[0-9]' * 15}.parquet"))
    return {int(part.stem.removeprefix("raw-")): part for part in found}


def write_part(folder: Path, number: int, rows: pa.Table) -> None:
    """Write the part with this number, instead of one that is there. Rows are sorted by landing. Raises OSError.

    It is durable under its final name when this returns. A kill leaves at most a hidden file, which the next part
    replaces.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / ".next.parquet"
    # What was left there, or a link, which would lead elsewhere.
    draft.unlink(missing_ok=True)
    pq.write_table(
        rows.select(SCHEMA.names).cast(SCHEMA), draft, compression="zstd", write_page_checksum=True,
        row_group_size=_ROW_GROUP, use_dictionary=["account_id", "surface", "run_id", "correlation_id"],
    )  # fmt: skip
    sync(draft)
    draft.rename(part_path(folder, number))
    sync(folder)


def find_unmerged_parts(
    folder: Path, *, merged_seq: int, raw_seq: int, inbox: Collection[int], is_erasing: bool = False
) -> Sequence[Path]:
    """Return the parts that an unfinished merge wrote, whose landings are in the inbox and are merged again.

    `raw_seq` is the last landing of which the warehouse has rows there; an interrupted erasure leaves later ones.
    Raises WarehouseUnusable if the raw store does not belong to the warehouse: it has landings that are neither merged
    nor in the inbox, or were erased, or lacks the last ones; or if its last part is damaged.
    """
    merged, unmerged = dict[int, Path](), dict[int, Path]()
    for number, part in list_parts(folder).items():
        (merged if number <= merged_seq else unmerged)[number] = part
    last = next(filter(None, map(_last_landing, reversed(merged.values()))), 0)
    if last > merged_seq or not unmerged.keys() <= {*inbox}:
        what = f"{folder} is newer than the warehouse"
    # In a warehouse of an earlier build, raw_seq is the number of the last part, whose rows may have been erased.
    elif last < raw_seq and raw_seq not in merged:
        what = f"{folder} lacks the last rows that the warehouse has there"
    elif last > raw_seq and raw_seq not in merged and not is_erasing:
        what = f"{folder} has rows that the warehouse does not have there"
    else:
        return [*unmerged.values()]
    raise WarehouseUnusable(f"{what}. Fix: restore the warehouse, the state and the raw store from the same backup.")


def find_parts(folder: Path, *, merged_seq: int) -> dict[int, Path]:
    """Return the parts with landings up to `merged_seq`, in order, without those whose rows an earlier part has.

    There are such parts while readers may still use what a compaction replaced. Raises WarehouseUnusable if a part
    cannot be read.
    """
    found, last = dict[int, Path](), 0
    for number, part in list_parts(folder).items():
        if last < number <= merged_seq:
            found[number] = part
            last = max(last, _last_landing(part))
    return found


def _last_landing(path: Path) -> int:
    try:
        metadata = pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, error) from error
    # Rows are sorted by landing. A part has none if all were erased.
    return 0 if not metadata.num_rows else int(metadata.row_group(metadata.num_row_groups - 1).column(0).statistics.max)


def read_parts(folder: Path, *, merged_seq: int) -> Iterator[pa.Table]:
    """Yield the rows of all landings up to `merged_seq`, part by part in their order, each row once.

    A compaction may have put later landings into a part that a snapshot reads. Raises WarehouseUnusable if a part is
    damaged.
    """
    for path in find_parts(folder, merged_seq=merged_seq).values():
        yield read_part(path).filter(pc.field("landed") <= merged_seq)


def read_part(path: Path) -> pa.Table:
    """Return the rows of a part. Raises WarehouseUnusable if it is damaged."""
    try:
        return pq.read_table(path, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> WarehouseUnusable:
    return WarehouseUnusable(f"{path} cannot be read: {first_line(error)}. Fix: restore the file from a backup.")

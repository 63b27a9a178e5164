"""The raw store in an open snapshot: `raw_media`, with the newest bytes of each item, and `raw_versions`, with all."""

from pathlib import Path

import pyarrow.dataset as ds
from duckdb import DuckDBPyConnection

from connectors.warehouse.raw.parts import SCHEMA, find_parts
from connectors.warehouse.storage.errors import WarehouseUnusable

# pyarrow reads the files, because DuckDB does not verify the checksums of pages, and needs no access to files then.
_PARQUET = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)

_VIEWS = """
CREATE TEMP VIEW raw_versions AS
SELECT * REPLACE (try(decode(payload)) AS payload)
FROM raw_rows WHERE landed <= (SELECT merged_seq FROM core.warehouse);
CREATE TEMP VIEW raw_media AS
SELECT r.* EXCLUDE (landed, position)
FROM raw_versions AS r SEMI JOIN core.media AS m ON m.raw_landed = r.landed AND m.raw_position = r.position
"""


def add_raw_media(db: DuckDBPyConnection) -> None:
    """Create the views of the raw store. Raises WarehouseUnusable if it cannot be read, or if columns are hidden."""
    [(folder, hidden, merged_seq, raw_seq)] = db.execute(
        "SELECT raw_folder, hidden, merged_seq, raw_seq FROM core.published, core.warehouse"
    ).fetchall()
    if hidden is not None:
        raise WarehouseUnusable(
            "this snapshot has hidden columns, so the raw store cannot be read with it. Fix: unset GRAMHOUSE_HIDE and"
            " run `gramhouse publish --show-hidden`."
        )
    paths = find_parts(Path(folder), merged_seq=merged_seq)
    if raw_seq > 0 and not paths:
        raise WarehouseUnusable(
            f"{folder} of the raw store cannot be read: it has no parts. Fix: make the folder readable here."
        )
    db.register("raw_rows", ds.dataset(paths, SCHEMA, format=_PARQUET))
    db.execute(_VIEWS)

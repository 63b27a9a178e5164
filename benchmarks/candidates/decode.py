"""Decodes all stored items of a warehouse and discards them: what a rebuild takes at least. Prints seconds as JSON.

    python -m benchmarks.candidates.decode WAREHOUSE

Reading the raw store and starting Python are not included.
"""

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from connectors.warehouse.ingest.decode import Decoder
from connectors.warehouse.raw.reading import stored_payloads
from connectors.warehouse.schema.field_registry import own_names, read_mapping, read_registry
from connectors.warehouse.storage.connection import connect


def main() -> None:
    """Decode the items and print the seconds."""
    seconds, items, now = 0.0, 0, datetime.now(UTC)
    with connect(Path(sys.argv[1])) as connection, connection.begin():
        mapping, registry = read_mapping(connection), read_registry(connection)
        own = own_names(mapping)
        for rows in stored_payloads(connection, "core.media", "changed_at"):
            order_keys, payloads = rows["order_key"].to_pylist(), rows["payload"].cast(pa.binary()).to_pylist()
            began = time.perf_counter()
            decoder = Decoder(mapping, registry, own, lambda _: now)
            decoder.add(order_keys, payloads)
            items += decoder.finish().media.num_rows
            seconds += time.perf_counter() - began
    print(json.dumps({"items": items, "seconds": seconds}))


if __name__ == "__main__":
    main()

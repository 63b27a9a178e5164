"""SQL that joins the rows of a warehouse or a snapshot with their original bytes in the raw store."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from connectors.warehouse.raw.store import RawStore, parquet

Ask = Callable[[str], list[tuple[Any, ...]]]

_KEY = "account_id, surface, media_id"


def _parts(ask: Ask, *, inside: bool) -> str:
    table = "ops.warehouse" if inside else "main.published"
    ((file, warehouse_id),) = ask(
        f"SELECT path, warehouse_id FROM duckdb_databases(), {table} WHERE database_name = current_database()"
    )
    listed = "ops.raw_parts WHERE retired_at IS NULL" if inside else "core.raw_parts"
    numbers = [number for (number,) in ask(f"SELECT number FROM {listed}")]
    # Look next to the file: a snapshot that was copied with its raw store still lists the original path. If the folder
    # was copied and deleted while the snapshot was open, the parts are in a sibling folder, the copy.
    homes = [Path(file).parent, *Path(file).parent.parent.glob("*/")]
    stores = [RawStore(home / "raw" / warehouse_id / "media") for home in homes]
    holding = (store for store in stores if all(store.path(number).exists() for number in numbers))
    store = next(holding, stores[0])
    return parquet(store.path(number) for number in numbers)


def media(ask: Ask, *, inside: bool = False) -> str:
    """Return a subquery of media with their bytes (`gh_payload`); `inside`: of a warehouse, not of a snapshot."""
    table = "core.media" if inside else "media"
    return (
        f"(SELECT m.*, r.payload AS gh_payload FROM {table} AS m"
        f" JOIN (SELECT {_KEY}, raw_landed AS landed FROM core.media) AS c USING ({_KEY})"
        f" JOIN {_parts(ask, inside=inside)} AS r USING (landed))"
    )


def versions(ask: Ask) -> str:
    """Return a subquery of a snapshot's superseded versions with their bytes (`gh_payload`)."""
    return (
        "(SELECT v.*, r.payload AS gh_payload FROM core.media_superseded AS v"
        f" JOIN {_parts(ask, inside=False)} AS r ON r.landed = v.raw_landed)"
    )

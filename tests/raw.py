"""Tables of a warehouse or a snapshot with the bytes that each row was decoded from, read from the raw store."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from connectors.warehouse.raw.store import RawStore, parquet

Ask = Callable[[str], list[tuple[Any, ...]]]

_KEY = "account_id, surface, media_id"


def _parts(ask: Ask, *, inside: bool) -> str:
    own = "ops.warehouse" if inside else "main.published"
    ((file, warehouse_id),) = ask(
        f"SELECT path, warehouse_id FROM duckdb_databases(), {own} WHERE database_name = current_database()"
    )
    listed = "ops.raw_parts WHERE retired_at IS NULL" if inside else "core.raw_parts"
    numbers = [number for (number,) in ask(f"SELECT number FROM {listed}")]
    # Beside the file: a snapshot that was copied together with its raw store lists the place it was copied from. One
    # that is open while its folder is copied, and gone, has its parts in the copy.
    homes = [Path(file).parent, *Path(file).parent.parent.glob("*/")]
    stores = [RawStore(home / "raw" / warehouse_id / "media") for home in homes]
    holding = (store for store in stores if all(store.path(number).exists() for number in numbers))
    store = next(holding, stores[0])
    return parquet(store.path(number) for number in numbers)


def media(ask: Ask, *, inside: bool = False) -> str:
    """The media with their bytes, `gh_payload`, for after FROM: of a snapshot, or from the inside of a warehouse."""
    table = "core.media" if inside else "media"
    return (
        f"(SELECT m.*, r.payload AS gh_payload FROM {table} AS m"
        f" JOIN (SELECT {_KEY}, raw_landed AS landed FROM core.media) AS c USING ({_KEY})"
        f" JOIN {_parts(ask, inside=inside)} AS r USING (landed))"
    )


def versions(ask: Ask) -> str:
    """The versions of a snapshot that another has followed, with their bytes, `gh_payload`, for after FROM."""
    return (
        "(SELECT v.*, r.payload AS gh_payload FROM core.media_superseded AS v"
        f" JOIN {_parts(ask, inside=False)} AS r ON r.landed = v.raw_landed)"
    )

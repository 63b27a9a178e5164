"""`gramhouse export`: the snapshot as Parquet files."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from connectors.warehouse.snapshot.export import export as write_export
from connectors.warehouse.storage.paths import local
from flows.cli.commands.listing import plain_table
from flows.cli.fetching import current_snapshot
from flows.cli.options import AsJson, LogFormat, SnapshotFile
from flows.cli.output.terminal import DONE, clean, err, moment, out, print_json
from flows.config.errors import SettingsError
from flows.config.settings import load
from flows.reporting.words import count, file_size


def export(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Target folder; an earlier export in it is replaced.")],
    *,
    raw: Annotated[
        bool, typer.Option("--raw", help="Also export the raw store: every version of every media item as received.")
    ] = False,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
    _: LogFormat = "text",
) -> None:
    """Export the snapshot as Parquet files with a manifest. Does not block a sync."""
    settings = load(snapshot=snapshot)
    try:
        written = local(Path(folder))
    except ValueError as error:
        message = f"DIR: {error} (got {folder!r})."
        raise SettingsError(message) from None
    exported = write_export(current_snapshot(settings), written, at=datetime.now(UTC), with_raw=raw)
    if as_json:
        sizes = [
            {"name": table.name, "kind": table.kind, "rows": table.rows, "bytes": table.bytes}
            for table in exported.tables
        ]
        print_json({"folder": str(folder), "published_at": exported.published_at, "tables": sizes})
        return
    shown = plain_table({"name": "", "rows": "right", "size": "right"})
    for table in exported.tables:
        shown.add_row(clean(table.name), f"{table.rows:,}", file_size(table.bytes))
    out.print(shown)
    size = file_size(sum(table.bytes for table in exported.tables))
    published = moment(exported.published_at)
    tables = count(len(exported.tables), "table")
    err.print(f"{DONE} {tables}, {size}, in {clean(folder)}: the snapshot of {published} UTC")

"""`gramhouse export`: the snapshot as Parquet files."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from connectors.warehouse.export import export as write_export
from flows.cli.listing import plain_table
from flows.cli.options import AsJson, SnapshotFile
from flows.cli.terminal import DONE, clean, err, moment, out, print_json
from flows.settings import SettingsError, load
from flows.words import count, megabytes


def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder; an earlier export in it is replaced.")],
    *,
    snapshot: SnapshotFile = None,
    as_json: AsJson = False,
) -> None:
    """Write the snapshot as Parquet, with a manifest, for other engines; at any hour, as queries are."""
    if "\0" in str(folder):
        message = "DIR names no folder."
        raise SettingsError(message)
    exported = write_export(load(snapshot=snapshot).snapshot, folder.expanduser(), at=datetime.now(UTC))
    if as_json:
        sizes = [
            {"name": table.name, "kind": table.kind, "rows": table.rows, "bytes": table.bytes}
            for table in exported.tables
        ]
        print_json({"folder": str(folder), "published_at": exported.published_at, "tables": sizes})
        return
    shown = plain_table({"name": "", "rows": "right", "size": "right"})
    for table in exported.tables:
        shown.add_row(clean(table.name), f"{table.rows:,}", megabytes(table.bytes))
    out.print(shown)
    size = megabytes(sum(table.bytes for table in exported.tables))
    published = moment(exported.published_at)
    tables = count(len(exported.tables), "table")
    err.print(f"{DONE} {tables}, {size}, in {clean(folder)}: the snapshot of {published} UTC")

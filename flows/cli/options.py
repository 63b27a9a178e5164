"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, for programs.")]
WarehouseFile = Annotated[
    Path | None,
    typer.Option("--warehouse", help="The writer's DuckDB file (GRAMHOUSE_WAREHOUSE).", show_default=False),
]
SnapshotFile = Annotated[
    Path | None,
    typer.Option("--snapshot", help="The analysts' DuckDB file (GRAMHOUSE_SNAPSHOT).", show_default=False),
]

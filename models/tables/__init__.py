"""Every table and column gramhouse keeps, declared once, each with a comment.

Two files are declared here. `WAREHOUSE` is the writer's, `SNAPSHOT` the analysts': views over a copy of it. No table
has a key or an index: DuckDB's cost far more on these loads than they give, so uniqueness is kept by the merge.
"""

from models.tables.snapshot import SNAPSHOT
from models.tables.warehouse import (
    WAREHOUSE,
    core_accounts,
    core_children,
    core_fields,
    core_media,
    core_outcomes,
    core_quarantine,
    core_run_counts,
    core_runs,
    core_superseded,
    core_warnings,
    ops_batch_logs,
    ops_checkpoints,
    ops_cooldowns,
    ops_mapping,
    ops_missing_accounts,
    ops_raw_parts,
    ops_segments,
    ops_service,
    ops_staging,
    ops_warehouse,
)

__all__ = [
    "SNAPSHOT",
    "WAREHOUSE",
    "core_accounts",
    "core_children",
    "core_fields",
    "core_media",
    "core_outcomes",
    "core_quarantine",
    "core_run_counts",
    "core_runs",
    "core_superseded",
    "core_warnings",
    "ops_batch_logs",
    "ops_checkpoints",
    "ops_cooldowns",
    "ops_mapping",
    "ops_missing_accounts",
    "ops_raw_parts",
    "ops_segments",
    "ops_service",
    "ops_staging",
    "ops_warehouse",
    "own_columns",
]


def own_columns(resource: str) -> set[str]:
    """Return the names that no column made for a field of `media`, or of a child table, may have."""
    tables = [*WAREHOUSE.sorted_tables, *SNAPSHOT.sorted_tables]
    own = [table for table in tables if resource in (table.name, table.info.get("versions_of"))]
    return {column.name for table in own for column in table.columns}

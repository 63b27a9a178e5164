"""Every table and column gramhouse keeps, declared once, each with a comment.

Two files are declared here. `WAREHOUSE` is the writer's, `SNAPSHOT` the analysts': views over a copy of it. No table
has a key or an index: DuckDB's cost far more on these loads than they give, so uniqueness is kept by the fold.
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
    core_warnings,
    ops_checkpoints,
    ops_holds,
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
    "core_warnings",
    "ops_checkpoints",
    "ops_holds",
    "ops_mapping",
    "ops_missing_accounts",
    "ops_raw_parts",
    "ops_segments",
    "ops_service",
    "ops_staging",
    "ops_warehouse",
]

"""DuckDB: landing, merging, the run ledger, and the snapshot analysts read."""

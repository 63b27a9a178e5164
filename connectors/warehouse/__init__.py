"""DuckDB: landing, folding, the run ledger, and the snapshot analysts read."""

"""DuckDB: landing, merging, the run ledger, and the analysts' snapshot."""

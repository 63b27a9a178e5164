"""The DuckDB file: its connection, its tables, and errors in one line."""

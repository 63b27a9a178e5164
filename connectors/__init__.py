"""The packages that do IO: the API (source), a shared store, DuckDB (warehouse), and a server of the API (sandbox)."""

"""The three doors to the world outside: the API, DuckDB, and the API served by us."""

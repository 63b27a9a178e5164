"""The writer's DuckDB file and its raw store: opened, filled by merges, and read for what scans need to know."""

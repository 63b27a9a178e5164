"""The DuckDB file: connections, locks, migrations, durable writes."""

"""A run, without Prefect: list, scan, merge, publish."""

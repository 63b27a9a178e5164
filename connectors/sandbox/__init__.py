"""REST API v1, served by us: for demos, tests and benchmarks. Imports nothing else of the project."""

"""A server of REST API v1 for demos, tests and benchmarks. It does not import other packages of the project."""

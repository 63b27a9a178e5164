"""The parts of a run that do not depend on Prefect: list, scan, merge, publish."""

"""Scans on a Dask cluster: workers fetch pages in bounded tasks, and the run's process lands what they return."""

"""Runs, the Prefect flows around them, and the command line."""
